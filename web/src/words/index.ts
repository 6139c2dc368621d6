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

/** Set the sentences of codes, which load later than the page. */
export function takeSentences(taken: Sentences): void {
  sentences = taken;
}

/** Return the sentence of a code. For a code of a later release, return `message`, or else the code's name. */
export function wordsOf(code: string, message = ""): string {
  return Object.hasOwn(sentences.codes, code) ? (sentences.codes[code] as string) : message || en.unknownCode(code);
}

/** Return the sentence for a result code of a call or a program. */
export function wordsOfCall(code: string): string {
  return Object.hasOwn(sentences.callCodes, code) ? (sentences.callCodes[code] as string) : wordsOf(code);
}
