/** Recorded stories as a stage sends them to a client that was cut off, or that connects later. */

import { readFileSync } from "node:fs";
import killedText from "../../../tests/data/thread/killed.json?raw";
import {
  type ClientState,
  type DeltaFrame,
  type Effect,
  type EventFrame,
  emptyState,
  type Frame,
  foldFrames,
  isStreaming,
  parseFrame,
} from "../../src/client/index.ts";
import { type Change, foldTurn, follow, pauseOf } from "../../src/door/turn_parts.ts";
import type { Door } from "../../src/door/turn_stream.ts";
import { conversations, logs, type Recording, synthetic } from "../thread/recordings.ts";

export const STORIES: readonly Recording[] = [
  ...conversations,
  { name: "every other event", frames: synthetic },
  ...logs.map((frames, place) => ({ name: `log ${place + 1}`, frames })),
];

/** Conversations whose worker was killed: all of them at night, in the file that Python wrote, else a sample. */
export const KILLED: readonly Recording[] = JSON.parse(readKilled()).map(
  ({ name, frames }: { name: string; frames: unknown[] }) => ({ name, frames: frames.map((one) => parseFrame(one)) }),
);

function readKilled(): string {
  return process.env.STEPLINE_KILLED ? readFileSync(process.env.STEPLINE_KILLED, "utf8") : killedText;
}

/** The frames that a client receives, and the turns in them. */
export function turnsOf(frames: readonly Frame[]): readonly string[] {
  const started = events(frames).flatMap((frame) => frame.events.filter(({ type }) => type === "chat.start"));
  return started.map((event) => event.turn_id);
}

/**
 * Return what a client in `state` receives if it resumes after `frames[0 .. at]` were sent: the events and the stored
 * text that it lacks, and everything after.
 */
export function resumed(frames: readonly Frame[], at: number, state: ClientState): readonly Frame[] {
  const before = frames.slice(0, at);
  const missed = inOrder(events(before)).filter(({ n }) => n > state.cursor);
  const [now] = foldFrames(emptyState(state.conversation), before);
  const have = state.claim === now.claim ? state.lanes : new Map();
  const stored = [...now.lanes].map(([lane, { text }]): DeltaFrame => {
    const off = have.get(lane)?.end ?? 0;
    const rest = [...text].slice(off).join("");
    return { frame: "delta", conversation: "c-1", claim: now.claim, lane, off, text: rest, start: 0 };
  });
  const sync: Frame = {
    frame: "sync",
    conversation: "c-1",
    n: now.cursor,
    claim: now.claim,
    open: now.open,
    turn_id: now.turnId,
    approval: 0,
    place: 0,
  };
  const text = isStreaming(now) ? stored.filter((delta) => delta.text) : [];
  return [...missed, ...text, sync, ...frames.slice(at)];
}

/** Return the effects of a client that is cut off after `cut` frames, and resumes when `at` of them were sent. */
function effectsAcross(frames: readonly Frame[], cut: number, at: number): readonly Effect[] {
  const [state, effects] = foldFrames(emptyState("c-1"), frames.slice(0, cut));
  return [...effects, ...foldFrames(state, resumed(frames, at, state))[1]];
}

/** Render a turn by a door. */
export function render<Value, State>(door: Door<Value, State>, effects: readonly Effect[], turn: string): Value[] {
  let cursor = follow({ turn });
  let state = door.empty;
  const values: Value[] = [];
  const take = (changes: readonly Change[]) => {
    for (const change of changes) {
      const [next, more] = door.render(state, change);
      state = next;
      values.push(...more);
    }
  };
  for (const effect of effects) {
    const [next, changes] = foldTurn(cursor, effect);
    cursor = next;
    take(changes);
  }
  take(pauseOf(cursor));
  return values;
}

/**
 * Return what a door sends to each client that is cut off or connects later, without repetition, and its cut: every
 * one at night, else about eight of a story. `isOne`: one kind of reconnection for each cut, in turn.
 */
export function distinct<Value>(
  frames: readonly Frame[],
  renderAll: (effects: readonly Effect[]) => readonly Value[],
  isOne = false,
): readonly (readonly [values: readonly Value[], cut: string])[] {
  const found = new Map<string, readonly [readonly Value[], string]>();
  const length = frames.length;
  const all = frames.flatMap((_, cut) => [cut, Math.ceil((cut + length) / 2), length].map((at) => [cut, at] as const));
  // 4 is no multiple of three, so it tries each kind of reconnection.
  const step = isNightly() ? (isOne ? 4 : 1) : 3 * Math.floor(all.length / 24) + 1; // no multiple of three: it tries each kind of cut
  for (const [cut, at] of all.filter((_, i) => i % step === 0)) {
    const late = foldFrames(emptyState("c-1"), resumed(frames, cut, emptyState("c-1")))[1];
    for (const [effects, name] of [
      [effectsAcross(frames, cut, at), `reconnected: ${cut}, ${at}`],
      [late, `second client: ${cut}`],
    ] as const) {
      const values = renderAll(effects);
      const key = JSON.stringify(values);
      if (!found.has(key)) found.set(key, [values, name]);
    }
  }
  return [...found.values()];
}

/** Return each event frame once, in the order of the log: a client whose worker was killed may have received it twice. */
function inOrder(frames: readonly EventFrame[]): readonly EventFrame[] {
  const known = new Map(frames.map((frame) => [`${frame.n}.${frame.part}`, frame]));
  return [...known.values()].sort((one, other) => one.n - other.n || one.part - other.part);
}

function isNightly(): boolean {
  return process.env.STEPLINE_TIER === "nightly";
}

function events(frames: readonly Frame[]): readonly EventFrame[] {
  return frames.filter((frame) => frame.frame === "events");
}
