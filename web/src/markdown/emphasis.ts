/**
 * Pairs stars, underscores and tildes by the rules of CommonMark, with two additional rules:
 *
 * - A script without spaces between words has none next to emphasis either, so its letters and its punctuation count as
 *   a space: `含**「重点」**内容` is bold. Source: https://github.com/tats-u/markdown-cjk-friendly (specification.md)
 * - A single tilde strikes nothing out: `~5 to ~10` means about, and `3~4` is a range. Two tildes do.
 */

import { UNSPACED } from "./scripts.ts";

export interface Span {
  readonly type: "em" | "strong" | "del";
  /** The offset after its last mark. */
  readonly end: number;
}

interface Run {
  readonly mark: string;
  /** Its original length, which rules 9 and 10 use. */
  readonly length: number;
  readonly opens: boolean;
  readonly closes: boolean;
  /** The length that is still unused. */
  start: number;
  end: number;
}

const RUNS = /\*+|_+|~+/g;
const BLANK = /\s/u;
const PUNCTUATION = /[\p{P}\p{S}]/u;
/** Letters and punctuation of scripts without spaces between words. */
const BESIDE = new RegExp(
  `[${UNSPACED}\\p{scx=Han}\\p{scx=Hang}\\u3000-\\u303f\\ufe10-\\ufe1f\\ufe30-\\ufe6f\\uff01-\\uffee]`,
  "u",
);
/** The last character, with a variation selector if there is one. */
const LAST = /(.)[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]*$/su;
const LAST_MAX_CHARS = 6;

type Kind = "blank" | "punctuation" | "unspaced" | "letter";

function kindOf(char: string): Kind {
  if (char === "" || BLANK.test(char)) return "blank";
  if (BESIDE.test(char)) return "unspaced";
  return PUNCTUATION.test(char) ? "punctuation" : "letter";
}

/** Return true if marks between these two belong to the text beyond `near`. */
function flanks(near: Kind, far: Kind): boolean {
  return near !== "blank" && (near !== "punctuation" || far !== "letter");
}

function readRun(text: string, start: number, marks: string): Run {
  const mark = marks.charAt(0);
  const end = start + marks.length;
  const beforeText = text.slice(Math.max(0, start - LAST_MAX_CHARS), start);
  const before = LAST.exec(beforeText)?.[1] ?? "";
  const after = end < text.length ? String.fromCodePoint(text.codePointAt(end) ?? 0) : "";
  const left = flanks(kindOf(after), kindOf(before));
  const right = flanks(kindOf(before), kindOf(after));
  const isWord = mark === "_"; // within a word it is a letter of a name
  return {
    mark,
    length: marks.length,
    opens: left && (!isWord || !right || PUNCTUATION.test(before)),
    closes: right && (!isWord || !left || PUNCTUATION.test(after)),
    start,
    end,
  };
}

function canPair(opener: Run, closer: Run): boolean {
  if (opener.mark !== closer.mark || !opener.opens || opener.start === opener.end) return false;
  if (opener.mark === "~") return true;
  const either = opener.closes || closer.opens;
  return !either || (opener.length + closer.length) % 3 !== 0 || (opener.length % 3 === 0 && closer.length % 3 === 0);
}

/** Return the spans of a text by their start. Code, links and escapes in it are masked. */
export function pairMarks(text: string): ReadonlyMap<number, Span> {
  const spans = new Map<number, Span>();
  const open: Run[] = [];
  for (const found of text.matchAll(RUNS)) {
    const run = readRun(text, found.index, found[0]);
    if (run.mark === "~" && run.length !== 2) continue;
    while (run.closes && run.start < run.end) {
      const at = open.findLastIndex((opener) => canPair(opener, run));
      const opener = open[at];
      if (!opener) break;
      open.length = at + 1; // openers between the two never close
      const used = Math.min(2, opener.end - opener.start, run.end - run.start);
      opener.end -= used;
      run.start += used;
      spans.set(opener.end, { type: run.mark === "~" ? "del" : used === 2 ? "strong" : "em", end: run.start });
      if (opener.start === opener.end) open.length = at;
    }
    if (run.opens && run.start < run.end) open.push(run);
  }
  return spans;
}
