/** The turns of the recorded stories that a message of a client begins. */

import type { EventFrame, Frame } from "../../src/client/index.ts";
import type { Recording } from "../thread/recordings.ts";
import { KILLED, STORIES } from "./stories.ts";

export interface ServedTurn {
  readonly name: string;
  readonly turn: string;
  /** The frames of the story up to the turn's end. */
  readonly frames: readonly Frame[];
  /** How many of them precede the message. */
  readonly begin: number;
  readonly message: { readonly id: string; readonly text: string };
}

/**
 * Every turn that a message begins, that waits for no person, that the recording has to its end, and whose end begins
 * no other one.
 */
const ALL: readonly ServedTurn[] = [...STORIES, ...KILLED].flatMap(turnsIn).filter(({ frames, turn }) => {
  const events = frames.flatMap((frame) => (frame.frame === "events" ? frame.events : []));
  if (events.some(({ type, turn_id }) => type === "approval.requested" && turn_id === turn)) return false;
  return events.findLast(({ type }) => type === "chat.start")?.turn_id === turn;
});

/** A sample of both: each turn is its own server. At night every story, and more of those whose worker was killed. */
export const SERVED = ALL.filter(({ name }, at) => (isNightly() && !name.includes("killed")) || at % 24 === 0);

function turnsIn({ name, frames }: Recording): ServedTurn[] {
  return frames.flatMap((frame) => {
    if (frame.frame !== "events") return [];
    return frame.events.flatMap(({ type, turn_id: turn, data }) => {
      const [prompt] = type === "chat.start" ? (data.prompts as readonly number[]) : [];
      const begin = frames.findIndex((one) => one.frame === "events" && one.n === prompt);
      const end = frames.findIndex((one) => one.frame === "events" && endsTurn(one, turn));
      if (begin < 0 || end < 0) return [];
      const accepted = acceptedBy(frames[begin] as EventFrame);
      if (!accepted) return [];
      const message = { id: String(accepted.message_id), text: String(accepted.text) };
      return [{ name: `${name}, ${turn}`, turn, frames: frames.slice(0, end + 1), begin, message }];
    });
  });
}

function acceptedBy({ events }: EventFrame) {
  return events.find(({ type }) => type === "chat.conversation.accepted")?.data;
}

function endsTurn({ events }: EventFrame, turn: string): boolean {
  return events.some(({ type, turn_id }) => turn_id === turn && (type === "chat.complete" || type === "chat.error"));
}

/** Return the places at which a turn is cut: about six at night, else three. Clients leave at one, the server ends at the next. */
export function cutsOf({ begin, frames }: ServedTurn): readonly number[] {
  const all = frames.map((_, at) => at).slice(begin);
  const step = Math.max(1, Math.ceil(all.length / (isNightly() ? 6 : 3)));
  return all.filter((at) => (at - begin) % step === 0);
}

function isNightly(): boolean {
  return process.env.STEPLINE_TIER === "nightly";
}
