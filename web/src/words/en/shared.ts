/**
 * English words of the whole page. Words of one part of it are in the files next to this one, and sentences of codes in
 * `codes.ts`.
 */

import { formatMs, formatNumber, formatOrdinal } from "../format.ts";

/** Return a number with its noun: `1 round`, `2 rounds`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}

/** Return the queue position of a turn in words; 1 is the next. */
export function inLine(place: number): string {
  return place === 1 ? "Waiting: next in line" : `Waiting: ${formatOrdinal(place)} in line`;
}

/** Return when a busy provider is retried; the number of the attempt is 0 if unknown. */
export function retryIn(leftMs: number, attempt: number, attempts: number): string {
  const seconds = Math.ceil(leftMs / 1000);
  const when = seconds > 0 ? `in ${seconds < 60 ? `${seconds} s` : formatMs(seconds * 1000)}` : "now";
  return `retrying ${when}${attempts > 0 ? ` (attempt ${attempt} of ${attempts})` : ""}`;
}

export const en = {
  unknownCode: (code: string) => `Something went wrong (${code}).`,
  readout: {
    idle: "idle",
    stopping: "stopping",
    ending: (left: number) => `finishing, ${counted(left, "round")} left`,
    round: (number: number) => `round ${formatNumber(number)}`,
    thinking: "thinking",
    deciding: "deciding",
    writing: (name: string) => `writing ${name}`,
    program: "program",
    approval: "waiting for your approval",
    busy: (retry: string) => `model busy, ${retry}`,
    compacting: "summarizing earlier turns",
    closing: "closing",
  },
};
