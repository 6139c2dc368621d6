/** The composer's actions in each situation: three, one, or none. Pure. */

import { FRAME_MAX_BYTES } from "../../client/index.ts";

/** The maximum length of a message in characters; a longer text is sent as a file. */
export const TEXT_MAX_CHARS = 32_000;
/** Room in a frame for everything except the text: ids, names of uploads, time zone. */
const ENVELOPE_BYTES = 2 * 1024;
const TEXT_MAX_BYTES = FRAME_MAX_BYTES - ENVELOPE_BYTES;
const SHOWN_FROM = 0.9;

export interface Situation {
  readonly text: string;
  /** The number of files of the message. */
  readonly files: number;
  readonly running: boolean;
  readonly stopping: boolean;
  readonly signedOut: boolean;
  /** Until when the server accepts no message, in epoch milliseconds; 0 if it accepts one now. */
  readonly blockedUntil: number;
  readonly nowMs: number;
  /** This stage supports file uploads. */
  readonly uploads: boolean;
}

export interface Offer {
  /** The action of Enter. */
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
    // A redirect interrupts at once: it does not wait for files.
    canRedirect: running && open && fits && situation.text.trim() !== "" && situation.files === 0,
    stop: !running ? "none" : stopping ? "stopping" : "stop",
  };
}

/**
 * The fill level of a message: `part` is the used share of the maximum, `leftBytes` the bytes that remain (negative:
 * too many).
 */
export interface Length {
  readonly part: number;
  readonly leftBytes: number;
  /** Whether to show it. */
  readonly shown: boolean;
}

/** Measure a text as it is sent: characters are code points, bytes are those of its JSON. */
export function lengthOf(text: string): Length {
  if (text.length < TEXT_MAX_BYTES / 8) return { part: 0, leftBytes: TEXT_MAX_BYTES, shown: false };
  const bytes = new TextEncoder().encode(JSON.stringify(text)).length;
  const part = Math.max(bytes / TEXT_MAX_BYTES, countCodePoints(text) / TEXT_MAX_CHARS);
  return { part, leftBytes: Math.floor(TEXT_MAX_BYTES * (1 - part)), shown: part >= SHOWN_FROM };
}

function countCodePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

export type ComposerKey = "main" | "redirect" | "last" | "newline" | "none";

/** Return the action of a key in the input. */
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
