/** The text of the title bar: the current activity, or the number of turns while idle. Pure. */

import { visible } from "../../markdown/index.ts";
import { countTurns, openTurn, readoutOf, type Thread } from "../../thread/index.ts";
import { shell } from "../../words/en/shell.ts";
import { sayReadout } from "../../words/index.ts";

/**
 * Return the readout's text at a time; `stopping` is true from the click on Stop, before the server has received it.
 */
export function readoutText(thread: Thread, stopping: boolean, now: number): string {
  if (!openTurn(thread)) return idleText(thread);
  // The text contains names of tools and files, which are untrusted.
  return stopping ? sayReadout({ is: "stopping" }, now) : visible(sayReadout(readoutOf(thread), now));
}

/** Return the time until which the running turn waits for its provider, in epoch milliseconds; 0 if it does not. */
export function busyUntil(thread: Thread): number {
  const readout = readoutOf(thread);
  return readout.is === "provider" ? readout.until : 0;
}

/** Return when the running turn began, in epoch milliseconds; null if none is running. */
export function runsSince(thread: Thread): number | null {
  return openTurn(thread)?.startedAt ?? null;
}

function idleText(thread: Thread): string {
  return thread.turns.length === 0 ? "" : shell.readout.idle(countTurns(thread));
}
