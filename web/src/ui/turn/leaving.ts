/** The streamed parts of a round that has restarted: they fade out instead of disappearing at once. */

import { useEffect, useRef } from "preact/hooks";
import type { Round } from "../../thread/thread.ts";
import { useRedraw } from "./memo.tsx";

const FADE_MS = 120;

const restartsOf = (round: Round): number => round.items.filter((item) => item.is === "restarted").length;

function hasStreamed(round: Round): boolean {
  return round.thinking.text !== "" || round.drafts.length > 0 || round.calls.length > 0;
}

/** Return the round before its restart while it fades out; null at any other time. */
export function useLeaving(round: Round): Round | null {
  const before = useRef(round);
  const leaving = useRef<Round | null>(null);
  const redraw = useRedraw();
  const restarts = restartsOf(round);
  if (restarts > restartsOf(before.current) && hasStreamed(before.current) && moves()) leaving.current = before.current;
  before.current = round;
  useEffect(() => {
    if (!leaving.current) return;
    const timer = setTimeout(() => {
      leaving.current = null;
      redraw();
    }, FADE_MS);
    return () => clearTimeout(timer);
  }, [restarts]);
  return leaving.current;
}

function moves(): boolean {
  return !matchMedia("(prefers-reduced-motion: reduce)").matches;
}
