/** Small parts of several panels: a link, a bar by cache class, a folded text. */

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { MissedCache } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import type { Figures } from "./figures.ts";
import { cutText, showHidden } from "./text.ts";

/** Scroll an element into the middle of its scroller; a visible element does not move. */
export function reveal(element: Element): void {
  center(element);
  // Elements that were off screen had no size yet.
  requestAnimationFrame(() => center(element));
}

function center(element: Element): void {
  const box = element.closest(".scroll, .col")?.getBoundingClientRect();
  const own = element.getBoundingClientRect();
  if (box && own.top >= box.top && own.bottom <= box.bottom) return;
  element.scrollIntoView({ block: "center" });
}

interface LinkProps {
  readonly href: string;
  readonly navigate: (address: string) => void;
  readonly current?: boolean;
  readonly class?: string;
  readonly children: ComponentChildren;
}

/** A link that the page handles itself. With a modifier, or another button, the browser does. */
export function Link({ href, navigate, current = false, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return (
    <a {...rest} href={href} onClick={follow} aria-current={current ? "true" : undefined}>
      {children}
    </a>
  );
}

/** The units of a bar's width, which is stretched to the available space. */
const WIDTH = 400;
const GAP = 1;

interface StackProps {
  readonly figures: Figures;
  /** Tokens of a full bar. */
  readonly most: number;
  readonly output?: boolean;
  readonly bust?: MissedCache | null;
}

/** A bar by cache class. It is hidden from screen readers, since its numbers are next to it as text. */
export function Stack({ figures, most, output = true, bust = null }: StackProps) {
  const scale = (WIDTH - 4 * GAP) / Math.max(1, most);
  const parts = [
    ["read", figures.read],
    ["write", figures.written],
    ["plain", figures.plain],
    ["out", output ? figures.output : 0],
  ] as const;
  let x = 0;
  return (
    <svg class="stack" viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
      {parts.map(([name, tokens]) => {
        if (tokens === 0) return null;
        const at = x;
        const width = Math.max(1, tokens * scale);
        x += width + GAP;
        return <rect key={name} class={name} x={at.toFixed(1)} y="0" width={width.toFixed(1)} height="10" />;
      })}
      {bust && <rect class="notch" x={(bust.expected_tokens * scale).toFixed(1)} y="0" width="4" height="10" />}
    </svg>
  );
}

/** A plain text, cut to its first lines until the user expands it. */
export function FoldedText({ text }: { readonly text: string }) {
  const [whole, setWhole] = useState(false);
  const cut = useMemo(() => cutText(text), [text]);
  if (!cut.shown && cut.whole) return null;
  return (
    <>
      <pre dir="auto">{whole ? showHidden(text.replace(/^\n+|\n+$/g, "")) : `${cut.shown}${cut.whole ? "" : "…"}`}</pre>
      {!cut.whole && (
        <button type="button" class="unfold" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? words.request.showLess : words.request.showAll(cut.lines, cut.bytes)}
        </button>
      )}
    </>
  );
}
