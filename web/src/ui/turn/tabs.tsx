/** A row of tabs and the panel of the selected one, with the keys of the ARIA pattern. */

import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";

export interface Tab {
  readonly name: string;
  readonly count?: string;
  readonly panel: ComponentChildren;
}

/** The index that a key selects, or null. */
function stepOf(key: string, at: number, of: number, mirrored: boolean): number | null {
  if (key === "Home") return 0;
  if (key === "End") return of - 1;
  if (key === (mirrored ? "ArrowLeft" : "ArrowRight")) return (at + 1) % of;
  if (key === (mirrored ? "ArrowRight" : "ArrowLeft")) return (at + of - 1) % of;
  return null;
}

export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const [chosen, choose] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const mirrored = list.current !== null && getComputedStyle(list.current).direction === "rtl";
    const next = stepOf(event.key, chosen, tabs.length, mirrored);
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation();
    choose(next);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={onKeyDown}>
        {tabs.map((tab, at) => (
          <button
            key={tab.name}
            type="button"
            role="tab"
            id={`${id}-tab-${at}`}
            aria-selected={at === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={at === chosen ? 0 : -1}
            onClick={() => choose(at)}
          >
            {tab.name}
            {tab.count && <span class="num">{tab.count}</span>}
          </button>
        ))}
      </div>
      <div class="panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-tab-${chosen}`}>
        {tabs[chosen]?.panel}
      </div>
    </>
  );
}
