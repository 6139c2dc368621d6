/**
 * Finds formulas in a text: `$$…$$` and `\[…\]` as blocks, `\(…\)` and `$…$` within a line.
 *
 * An unterminated formula is text, so a growing text shows it as such until its end has arrived. No formula spans a
 * blank line, and one between single dollars no line break; none contains a backtick, and none is longer than 4,000
 * characters.
 */

import { UNSPACED } from "./scripts.ts";

export interface Formula {
  readonly raw: string;
  readonly tex: string;
  readonly display: boolean;
}

export const FORMULA_MAX_CHARS = 4_000;

const DELIMITERS = [
  ["$$", "$$", true],
  ["\\[", "\\]", true],
  ["\\(", "\\)", false],
  ["$", "$", false],
] as const;
/** A blank line, or one that begins a block of code. */
const BLOCK_END = /\n(?:[ \t]*(?:\n|$)| {0,3}~~~)/y;
const LINE_END = /[ \t]*(?:\n|$)/y;
/** A letter of a script without spaces counts as a space next to a formula: `面积是$x^2$的`. */
const WORD = new RegExp(`[\\p{N}$]|(?![${UNSPACED}])\\p{L}`, "u");
/** An amount with words or half of a remark, without a command: `$5/month or 10$`, `$5 (5$)`. */
const PRICE = new RegExp(`^\\d[^\\\\]*(?:[^\\p{L}\\d]\\p{L}{2}|[${UNSPACED}]|[([][^)\\]]*$)`, "u");
/** After the dollar of another price: `$40; R$ 12`. */
const AMOUNT = /^\s?\d/;
/** Escaped brackets enclose words; those of a formula enclose a symbol or a number, or letters that are not words. */
const SIGN = /[\\^_=+<>|{}\d]/;
const PROSE = new RegExp(`\\p{L}{3}|\\p{L}{2}\\s|\\s\\p{L}{2}|[${UNSPACED}]`, "u");
const BLOCK = /^ {0,3}(?=\$\$|\\\[)/;

/** Return the formula that begins at an offset of a text; null if none does. */
export function readFormula(text: string, at = 0, before = text.charAt(at - 1)): Formula | null {
  const first = text.charAt(at);
  if (first !== "$" && first !== "\\") return null;
  const found = DELIMITERS.find(([open]) => text.startsWith(open, at));
  if (!found) return null;
  const [open, close, display] = found;
  const end = findEnd(text, at + open.length, close);
  if (end < 0) return null;
  const tex = text.slice(at + open.length, end);
  if (!/[^\\\s]/.test(tex)) return null;
  if (open === "$" && !isBetweenDollars(tex, before, text.slice(end + 1, end + 3))) return null;
  if (open.startsWith("\\") && !SIGN.test(tex) && PROSE.test(tex)) return null;
  return { raw: text.slice(at, end + close.length), tex, display };
}

function isBetweenDollars(tex: string, before: string, after: string): boolean {
  if (tex.trim() !== tex || WORD.test(before) || WORD.test(after.charAt(0))) return false;
  return !PRICE.test(tex) && !(/^\d/.test(tex) && AMOUNT.test(after));
}

/** Return the index of `close`, -1 if something else comes first. */
function findEnd(text: string, from: number, close: string): number {
  const until = Math.min(text.length, from + FORMULA_MAX_CHARS);
  for (let i = from; i < until; i += 1) {
    if (text.startsWith(close, i)) return i;
    const char = text.charAt(i);
    if (char === "`" || (char === "$" && close.startsWith("$"))) return -1;
    if (char === "\n") {
      if (close === "$") return -1;
      BLOCK_END.lastIndex = i;
      if (BLOCK_END.test(text)) return -1;
    }
    if (char !== "\\") continue;
    const next = text.charAt(i + 1);
    if (!close.startsWith("$") && (next === "(" || next === "[")) return -1;
    i += 1;
  }
  return -1;
}

/** Return the formula block at the beginning of a text, with the rest of its line; null if there is none. */
export function readBlockFormula(text: string): Formula | null {
  const indent = BLOCK.exec(text)?.[0];
  if (indent === undefined) return null;
  const found = readFormula(text, indent.length);
  if (!found) return null;
  LINE_END.lastIndex = indent.length + found.raw.length;
  const rest = LINE_END.exec(text);
  return rest && { ...found, raw: indent + found.raw + rest[0] };
}

/** Return the next offset at which a formula may begin, -1 if there is none. */
export function findOpening(text: string): number {
  return text.search(/\$|\\[([]/);
}

/**
 * Return `masked` with letters in place of the formulas of `text`, so that a star within one ends no emphasis outside
 * it.
 */
export function maskFormulas(text: string, masked: string): string {
  let result = masked;
  for (let i = 0; i < text.length; i += 1) {
    const char = text.charAt(i);
    if (char === "`") {
      i = codeEnd(text, i) - 1;
    } else if (char === "$" || char === "\\") {
      const length = readFormula(text, i)?.raw.length ?? 0;
      if (length > 0) result = result.slice(0, i) + "a".repeat(length) + result.slice(i + length);
      i += length > 0 ? length - 1 : Number(char === "\\");
    }
  }
  return result;
}

/** Return the end of a span of code; if it is unterminated, the end of its mark. */
function codeEnd(text: string, at: number): number {
  const mark = /`+/y;
  mark.lastIndex = at;
  const run = mark.exec(text)?.[0] ?? "`";
  const inner = new RegExp(`(?<!\`)${run}(?!\`)`, "g");
  inner.lastIndex = at + run.length;
  const end = inner.exec(text);
  return end ? end.index + run.length : at + run.length;
}
