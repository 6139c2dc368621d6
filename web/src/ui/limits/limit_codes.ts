/** Refusals by a limit, for which the server's own sentence says whose limit it is. Pure. */

import { say } from "../../words/en/limits.ts";
import { formatMs, formatUtc } from "../../words/format.ts";
import { wordsOf } from "../../words/index.ts";

export const LIMIT_CODES: ReadonlySet<string> = new Set([
  "limit_turns",
  "limit_tokens",
  "limit_usd",
  "limit_storage",
  "stopped",
]);

/** A limit that ends sooner is shown only by its remaining time. */
const SOON_MS = 10 * 60_000;

/** Return the sentence of a refusal. For a limit, that is the server's own sentence with the time of its end. */
export function sayRefused(code: string, message: string, untilMs = 0): string {
  if (!LIMIT_CODES.has(code)) return wordsOf(code, message);
  return [message || wordsOf(code), untilMs > 0 && say.againFrom(formatUtc(untilMs))].filter(Boolean).join(" ");
}

/** Return the sentence of a refusal by a limit, and its end; `untilMs` is 0 if it does not end on its own. */
export function sayLimit(code: string, message: string, untilMs: number, nowMs: number): string {
  const why = message || wordsOf(code);
  const leftMs = Math.max(untilMs - nowMs, 0);
  if (leftMs === 0) return why;
  const left = formatMs(Math.ceil(leftMs / 1000) * 1000);
  return `${why} ${leftMs < SOON_MS ? say.againIn(left) : say.againAt(formatUtc(untilMs), left)}`;
}
