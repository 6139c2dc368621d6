import { callCodes, codes } from "./en/codes.ts";
import { en } from "./en/shared.ts";

export {
  formatBytes,
  formatClock,
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

/** Return the sentence of a code; one that a later release added is told by `message`, or else by its name. */
export function wordsOf(code: string, message = ""): string {
  return Object.hasOwn(codes, code) ? (codes[code] as string) : message || en.unknownCode(code);
}

/** Return the sentence of a code of a call's result, or of a program's. */
export function wordsOfCall(code: string): string {
  return Object.hasOwn(callCodes, code) ? (callCodes[code] as string) : wordsOf(code);
}
