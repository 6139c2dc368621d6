/** English words of the whole page; those of one part of it stand beside that part, and sentences of codes in `codes.ts`. */

import { formatNumber, formatOrdinal } from "../format.ts";

/** Return a number with its noun: `1 round`, `2 rounds`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}

/** Say where a turn waits in line, 1 being the next. */
export function inLine(place: number): string {
  return place === 1 ? "Waiting: next in line" : `Waiting: ${formatOrdinal(place)} in line`;
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
    provider: (time: string) => `waits for the provider until ${time}`,
    compacting: "summarizing earlier turns",
    closing: "closing",
  },
};
