/** The words of the title bar: what runs now, or what the conversation has come to. Pure. */

import { visible } from "../../markdown/index.ts";
import { countTurns, openTurn, readoutOf, type Thread } from "../../thread/index.ts";
import { shell } from "../../words/en/shell.ts";
import { sayReadout } from "../../words/index.ts";

/** Return the words at a time; `stopping` is true from the click on Stop, before the server has heard it. */
export function readoutText(thread: Thread, stopping: boolean, now: number): string {
  if (!openTurn(thread)) return idleText(thread);
  // It names tools and files, which strangers have named.
  return stopping ? sayReadout({ is: "stopping" }, now) : visible(sayReadout(readoutOf(thread), now));
}

/** Return until when the turn that runs waits for its provider, epoch milliseconds; 0 if it does not. */
export function busyUntil(thread: Thread): number {
  const readout = readoutOf(thread);
  return readout.is === "provider" ? readout.until : 0;
}

/** Return when the turn that runs began, epoch milliseconds; null if none runs. */
export function runsSince(thread: Thread): number | null {
  return openTurn(thread)?.startedAt ?? null;
}

function idleText(thread: Thread): string {
  return thread.turns.length === 0 ? "" : shell.readout.idle(countTurns(thread));
}
