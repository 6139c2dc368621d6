/** What the composer offers in each situation: three acts, or one, or none. Pure. */

import { FRAME_MAX_BYTES } from "../../client/index.ts";

/** Characters of a message; longer texts go as a file. */
export const TEXT_MAX_CHARS = 32_000;
/** Room in a frame for all that is not text: ids, names of uploads, time zone. */
const ENVELOPE_BYTES = 2 * 1024;
const TEXT_MAX_BYTES = FRAME_MAX_BYTES - ENVELOPE_BYTES;
const TELL_FROM = 0.9;

export interface Situation {
  readonly text: string;
  /** How many files the message has. */
  readonly files: number;
  readonly running: boolean;
  readonly stopping: boolean;
  readonly signedOut: boolean;
  /** Until when the server takes nothing, epoch milliseconds; 0 for now. */
  readonly blockedUntil: number;
  readonly nowMs: number;
  /** Files can be uploaded on this stage. */
  readonly uploads: boolean;
}

export interface Offer {
  /** What Enter does. */
  readonly main: "send" | "add";
  readonly canMain: boolean;
  readonly redirect: boolean;
  readonly canRedirect: boolean;
  readonly stop: "none" | "stop" | "stopping";
}

export function offerActs(situation: Situation): Offer {
  const { running, stopping, signedOut, uploads } = situation;
  const says = situation.text.trim() !== "" || situation.files > 0;
  const open = !signedOut && situation.nowMs >= situation.blockedUntil;
  const fits = lengthOf(situation.text).part <= 1;
  return {
    main: running ? "add" : "send",
    canMain: open && says && (fits || uploads),
    redirect: running,
    // A redirect interrupts now: it waits for no file.
    canRedirect: running && open && fits && situation.text.trim() !== "" && situation.files === 0,
    stop: !running ? "none" : stopping ? "stopping" : "stop",
  };
}

/** How full a message is: `part` of what may be sent as text, and the bytes that are left (negative: too many). */
export interface Length {
  readonly part: number;
  readonly leftBytes: number;
  /** Whether to say so. */
  readonly tell: boolean;
}

/** Measure a text as the wire does: characters are code points, bytes those of its JSON. */
export function lengthOf(text: string): Length {
  if (text.length < TEXT_MAX_BYTES / 8) return { part: 0, leftBytes: TEXT_MAX_BYTES, tell: false };
  const bytes = new TextEncoder().encode(JSON.stringify(text)).length;
  const part = Math.max(bytes / TEXT_MAX_BYTES, countCodePoints(text) / TEXT_MAX_CHARS);
  return { part, leftBytes: Math.floor(TEXT_MAX_BYTES * (1 - part)), tell: part >= TELL_FROM };
}

function countCodePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

export type ComposerKey = "main" | "redirect" | "last" | "newline" | "none";

/** Return what a key does in the field. */
export function keyOf(
  event: Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "metaKey" | "altKey">,
  empty: boolean,
): ComposerKey {
  if (event.altKey) return "none";
  if (event.key === "Enter") {
    if (event.ctrlKey || event.metaKey) return "redirect";
    return event.shiftKey ? "newline" : "main";
  }
  return event.key === "ArrowUp" && empty && !event.shiftKey ? "last" : "none";
}
