/**
 * English. Plain strings, and functions of the numbers and names in them; a section a part of the page.
 *
 * A sentence for every code is in `codes.ts`.
 */

import { formatOrdinal, formatTokens } from "./format";

/** Return a number with its noun: `1 round`, `2 rounds`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Routes, list, title bar, composer, attachments, connection, settings, first run. */
const shell = {
  idle: "idle",
};

/** The thread: turns, rounds, calls, programs, answers, receipts, notices. */
const turn = {
  round: (number: number) => `round ${number}`,
  thinking: "thinking",
  deciding: "deciding",
  writing: (name: string) => `writing ${name}`,
  program: "program",
  waitsForYou: "waits for your approval",
  waitsForProvider: (time: string) => `waits for the provider until ${time}`,
  closing: "closing",
  stopping: "stopping",
  comingToAnEnd: (left: number) => `coming to an end, ${counted(left, "round")} left`,
  beganAgain: (attempt: number) => `began again (${formatOrdinal(attempt)} attempt)`,
  compacting: "summing up older turns",
  compacted: (before: number, after: number, turns: number) =>
    `${formatTokens(before)} → ${formatTokens(after)} tokens, ${counted(turns, "turn")} in a summary`,
};

/** Plan, sources, files, context. */
const margin = {
  plan: "Plan",
  sources: "Sources",
  files: "Files",
  context: "Context",
};

/** The inspector. */
const inspect = {
  request: "Request",
  reply: "Reply",
  log: "Log",
};

/** Previews of files. */
const preview = {
  tooLarge: "Too large to show here.",
};

export const en = {
  unknownCode: (code: string) => `Something went wrong (${code}).`,
  shell,
  turn,
  margin,
  inspect,
  preview,
};
