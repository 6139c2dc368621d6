/** The running stream: its lanes, each a growing text. */

import { countCharacters } from "../client/characters.ts";
import type { LaneEnded, LaneKnown, TextAppended } from "../client/index.ts";
import { LOG_CHARS } from "./programs.ts";
import type { Lane, Stream } from "./thread.ts";

/** The kinds of lanes. Any other name belongs to a later release. */
export const LANE_KINDS = [
  "thinking",
  "notes",
  "answer",
  "canvas",
  "timeline",
  "plan",
  "code",
  "status",
  "name",
  "objective",
  "contract",
  "log",
] as const;

export type LaneKind = (typeof LANE_KINDS)[number] | "";

/** Return the kind of a lane: the first part of its name, or the third for a program (`exec.<i>.<part>`). */
export function laneKind(name: string): LaneKind {
  const parts = name.split(".");
  const kind = parts[0] === "exec" ? parts[2] : parts[0];
  return LANE_KINDS.find((known) => known === kind) ?? "";
}

export function emptyStream(claim: number): Stream {
  return { claim, lanes: new Map() };
}

/** Return the lane of a stream, or an empty one. */
export function laneOf(stream: Stream, name: string): Lane {
  return (
    stream.lanes.get(name) ?? { name, facts: null, base: 0, end: 0, text: "", whole: false, aborted: "", endedAt: "" }
  );
}

export function withLane(stream: Stream, lane: Lane): Stream {
  return { ...stream, lanes: new Map(stream.lanes).set(lane.name, lane) };
}

/** Append a piece. There may be a gap between the end of a program's output so far and the new piece. */
export function appended(lane: Lane, effect: TextAppended): Lane {
  const end = effect.off + countCharacters(effect.text);
  const goesOn = effect.off <= lane.end;
  const text = goesOn ? lane.text + effect.text : effect.text;
  const grown = { ...lane, base: goesOn ? lane.base : effect.off, end, text };
  return laneKind(lane.name) === "log" ? shortened(grown) : grown;
}

/** Return the lane with a long text shortened to its end; the cut is at a code point. */
function shortened(lane: Lane): Lane {
  let cut = lane.text.length - LOG_CHARS;
  if (cut <= 0) return lane;
  if (isLowSurrogate(lane.text, cut)) cut += 1;
  const text = lane.text.slice(cut);
  return { ...lane, text, base: lane.end - countCharacters(text) };
}

export function known(lane: Lane, effect: LaneKnown): Lane {
  return { ...lane, facts: effect.facts };
}

export function ended(lane: Lane, effect: LaneEnded): Lane {
  return { ...lane, whole: true, aborted: effect.aborted, endedAt: effect.at };
}

/** Return the lanes of a kind that no other lane replaces, in order. */
export function shown(stream: Stream, kind: LaneKind): readonly Lane[] {
  const lanes = [...stream.lanes.values()].filter((lane) => laneKind(lane.name) === kind);
  return lanes.filter((lane) => !lanes.some((other) => other.facts?.replaces === lane.name));
}

function isLowSurrogate(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00;
}
