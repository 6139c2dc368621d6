import { callCodes, codes } from "./codes";
import { en } from "./en";

export {
  formatBytes,
  formatClock,
  formatDay,
  formatMs,
  formatNumber,
  formatOrdinal,
  formatPercent,
  formatTime,
  formatTokens,
} from "./format";

export { sayReadout } from "./readout";

/** The words of the page in its language. */
export const words = { ...en, codes, callCodes };

/** Return the sentence of a code; one that a later release added is told by `message`, or else by its name. */
export function wordsOf(code: string, message = ""): string {
  return Object.hasOwn(codes, code) ? (codes[code] as string) : message || words.unknownCode(code);
}

/** Return the sentence of a code of a call's result, or of a program's. */
export function wordsOfCall(code: string): string {
  return Object.hasOwn(callCodes, code) ? (callCodes[code] as string) : wordsOf(code);
}
