/**
 * Fold the control lane of a stream into facts about its lanes. The fold is pure and gives the same result for any
 * order of frames.
 *
 * The control lane only grows, so each of its lines is read once. The end of a lane is reported once its whole text has
 * arrived. If frames overtake each other, text may arrive before the line that describes its lane. Lines from a later
 * release are skipped.
 */

import type { Effect } from "./effect.ts";
import type { LaneClosed, LaneFacts } from "./frames.ts";
import { readControlLine } from "./wire.ts";

/** The known facts about a stream's lanes. */
export interface Control {
  /** The start of a line whose end has not arrived yet. */
  readonly rest: string;
  readonly facts: ReadonlyMap<string, LaneFacts>;
  /** Ends of lanes whose text is not complete yet. */
  readonly due: ReadonlyMap<string, LaneClosed>;
}

export const NO_CONTROL: Control = { rest: "", facts: new Map(), due: new Map() };

/** Return the lanes that others have replaced. */
export function voidLanes(control: Control): ReadonlySet<string> {
  return new Set([...control.facts.values()].map((facts) => facts.replaces).filter((lane) => lane));
}

/** Read new text of the control lane; `added` continues the text read so far. */
export function foldControl(control: Control, claim: number, added: string): [Control, readonly Effect[]] {
  const text = control.rest + added;
  const end = text.lastIndexOf("\n") + 1;
  const facts = new Map(control.facts);
  const due = new Map(control.due);
  const effects: Effect[] = [];
  for (const line of text.slice(0, end).split("\n")) {
    const found = readControlLine(line); // the last one is empty
    if (found?.do === "open") {
      facts.set(found.lane, found.facts);
      effects.push({ kind: "laneKnown", claim, lane: found.lane, facts: found.facts });
    } else if (found) {
      due.set(found.lane, found);
    }
  }
  return [{ rest: text.slice(end), facts, due }, effects];
}

/**
 * Report the lanes that are complete. `ends` holds each lane with the number of characters received. A program that
 * prints nothing has an empty lane.
 */
export function foldEnds(
  control: Control,
  claim: number,
  ends: Iterable<readonly [lane: string, end: number]>,
): [Control, readonly Effect[]] {
  if (!control.due.size) return [control, []];
  const have = new Map(ends);
  const whole = [...control.due.values()].filter(({ lane, chars }) => (have.get(lane) ?? 0) >= chars);
  if (!whole.length) return [control, []];
  const left = new Map(control.due);
  for (const closed of whole) left.delete(closed.lane);
  const ended = whole.map(
    ({ lane, chars, aborted, at }): Effect => ({ kind: "laneEnded", claim, lane, chars, aborted, at }),
  );
  return [{ ...control, due: left }, ended];
}
