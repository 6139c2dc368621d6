/** Conversations as a client receives them. Python recorded them; see `tests/support/recorded_thread.py`. */

import conversationsText from "../../../tests/data/thread/conversations.json?raw";
import logsText from "../../../tests/data/thread/logs.json?raw";
import syntheticText from "../../../tests/data/thread/told.json?raw";
import {
  type Effect,
  type EventFrame,
  emptyState,
  type Frame,
  foldFrames,
  parseFrame,
} from "../../src/client/index.ts";
import { emptyThread, foldEffects, type Thread } from "../../src/thread/index.ts";

export interface Recording {
  readonly name: string;
  readonly frames: readonly Frame[];
}

export const conversations: readonly Recording[] = JSON.parse(conversationsText).map(
  (one: { name: string; frames: unknown[] }) => ({ name: one.name, frames: one.frames.map(frameOf) }),
);

/** A log with the events that no recorded conversation has. */
export const synthetic: readonly Frame[] = JSON.parse(syntheticText).map(frameOf);

/** Random logs. */
export const logs: readonly (readonly Frame[])[] = JSON.parse(logsText).map((log: unknown[]) => log.map(frameOf));

export const everything: readonly Recording[] = [
  ...conversations,
  { name: "synthetic", frames: synthetic },
  ...logs.map((frames, place) => ({ name: `log ${place + 1}`, frames })),
];

function frameOf(value: unknown): Frame {
  return parseFrame(value) as Frame;
}

export function named(name: string): readonly Frame[] {
  const found = conversations.find((one) => one.name === name);
  if (!found) throw new Error(`no recording: ${name}`);
  return found.frames;
}

export function isDurable(frame: Frame): frame is EventFrame {
  return frame.frame === "events";
}

/** Return the effects of frames for a client that has everything up to a batch. */
export function effectsOf(frames: readonly Frame[], cursor = 0): readonly Effect[] {
  return foldFrames(emptyState("c-1", cursor), frames)[1];
}

/** Return the thread of a client that received these frames. */
export function threadOf(frames: readonly Frame[]): Thread {
  return foldEffects(emptyThread("c-1"), effectsOf(frames));
}

/** Return the thread of a client that connects after these frames: from their events alone. */
export function reloadedOf(frames: readonly Frame[]): Thread {
  return threadOf(frames.filter(isDurable));
}
