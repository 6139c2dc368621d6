/** The citation under the pointer: one for the whole page, observed by its card and by the margin's list. */

import { useLayoutEffect } from "preact/hooks";
import { useRedraw } from "./memo.tsx";

export interface Cited {
  readonly sid: number;
  readonly chip: HTMLElement;
}

let cited: Cited | null = null;
const watchers = new Set<() => void>();

export function cite(sid: number, chip: HTMLElement | null): void {
  // Leaving one chip does not close the card of another.
  if (chip === null && cited?.sid !== sid) return;
  cited = chip === null ? null : { sid, chip };
  for (const run of watchers) run();
}

export function useCited(): Cited | null {
  const redraw = useRedraw();
  useLayoutEffect(() => {
    watchers.add(redraw);
    return () => void watchers.delete(redraw);
  }, []);
  return cited;
}
