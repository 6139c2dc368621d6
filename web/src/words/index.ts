import { en } from "./en/shared.ts";

export {
  formatBytes,
  formatClock,
  formatDay,
  formatIn,
  formatMs,
  formatNumber,
  formatOrdinal,
  formatPercent,
  formatQuantity,
  formatTime,
  formatTokens,
  formatUsd,
  formatUtc,
} from "./format.ts";

export { sayReadout } from "./readout.ts";

type Sentences = Pick<typeof import("./en/codes.ts"), "codes" | "callCodes">;

let sentences: Sentences = { codes: {}, callCodes: {} };

/** Take the sentences of codes, which are loaded later than the page. */
export function takeSentences(taken: Sentences): void {
  sentences = taken;
}

/** Return the sentence of a code; one that a later release added is told by `message`, or else by its name. */
export function wordsOf(code: string, message = ""): string {
  return Object.hasOwn(sentences.codes, code) ? (sentences.codes[code] as string) : message || en.unknownCode(code);
}

/** Return the sentence of a code of a call's result, or of a program's. */
export function wordsOfCall(code: string): string {
  return Object.hasOwn(sentences.callCodes, code) ? (sentences.callCodes[code] as string) : wordsOf(code);
}
