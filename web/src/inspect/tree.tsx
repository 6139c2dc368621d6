/** A JSON value as a tree of `<details>`, with the arrow keys of a tree. */

import { FoldedText } from "./bits.tsx";
import { oneLine, showHidden } from "./text.ts";

/** The number of rendered items of a branch; a longer one shows its count. */
const ITEMS = 200;

type Items = readonly (readonly [string, unknown])[];

function itemsOf(value: object): Items {
  return Array.isArray(value) ? value.map((item, at) => [String(at), item] as const) : Object.entries(value);
}

function isBranch(value: unknown): value is object {
  return typeof value === "object" && value !== null && itemsOf(value).length > 0;
}

function gist(value: object): string {
  return Array.isArray(value) ? `[${value.length}]` : `{${oneLine(Object.keys(value).join(", "), 60)}}`;
}

function Leaf({ value }: { readonly value: unknown }) {
  if (typeof value !== "string") return <code>{JSON.stringify(value) ?? "undefined"}</code>;
  if (value.length <= 120 && !value.includes("\n")) return <span dir="auto">{showHidden(value)}</span>;
  return <FoldedText text={value} />;
}

function Branch({ value, depth }: { readonly value: object; readonly depth: number }) {
  const items = itemsOf(value);
  return (
    <ul>
      {items.slice(0, ITEMS).map(([key, item]) => (
        <li key={key}>
          {isBranch(item) ? (
            <details open={depth < 3}>
              <summary>
                <code>{showHidden(key)}</code> <span class="value-gist">{gist(item)}</span>
              </summary>
              <Branch value={item} depth={depth + 1} />
            </details>
          ) : (
            <>
              <code>{showHidden(key)}</code> <Leaf value={item} />
            </>
          )}
        </li>
      ))}
      {items.length > ITEMS && <li class="value-gist">{`… [${items.length}]`}</li>}
    </ul>
  );
}

/** Move in a tree: up and down among visible items, right opens or enters, left closes or leaves. */
export function moveInTree(event: KeyboardEvent, root: HTMLElement): void {
  const at = event.target;
  if (!(at instanceof HTMLElement) || at.tagName !== "SUMMARY" || event.altKey || event.ctrlKey || event.metaKey)
    return;
  const details = at.parentElement as HTMLDetailsElement;
  const all = [...root.querySelectorAll<HTMLElement>("summary")].filter((one) => isVisible(one, root));
  const index = all.indexOf(at);
  const moves: Readonly<Record<string, () => HTMLElement | null | undefined>> = {
    ArrowDown: () => all[index + 1],
    ArrowUp: () => all[index - 1],
    ArrowRight: () => (details.open ? details.querySelector<HTMLElement>("details > ul summary") : open(details, true)),
    ArrowLeft: () =>
      details.open
        ? open(details, false)
        : details.parentElement?.closest("details")?.querySelector<HTMLElement>("summary"),
  };
  const move = moves[event.key];
  if (move === undefined) return;
  event.preventDefault();
  move()?.focus();
}

function open(details: HTMLDetailsElement, is: boolean): null {
  details.open = is;
  return null;
}

function isVisible(summary: HTMLElement, root: HTMLElement): boolean {
  let above = summary.parentElement?.parentElement ?? null;
  while (above !== null && above !== root) {
    if (above instanceof HTMLDetailsElement && !above.open) return false;
    above = above.parentElement;
  }
  return true;
}

export function Tree({ value, label }: { readonly value: unknown; readonly label: string }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields
    <div class="tree" role="group" aria-label={label} onKeyDown={(event) => moveInTree(event, event.currentTarget)}>
      {isBranch(value) ? <Branch value={value} depth={0} /> : <Leaf value={value} />}
    </div>
  );
}
