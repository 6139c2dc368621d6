/**
 * Cuts Markdown where no block can span the cut. It reads line by line and never looks ahead.
 *
 * A cut depends only on the lines before it, so more text never moves one. A growing text and a complete text have the
 * same segments, except for the last. A segment is small (some 32 KB), so lexing the last one again on every delta
 * costs the same at the end of a text as at its beginning.
 *
 * Not cutting is always correct. The text is cut
 * - before an unindented line after a blank one, unless a list may continue there;
 * - around a fenced code block, which needs no lexer, and around a line of more than 16 KB, which is too long for one;
 * - within a table after 200 rows, where each part is parsed under the head of the table;
 * - anywhere between two lines, if a segment would exceed its limit.
 */

export type SegmentKind =
  /** For the lexer. */
  | "text"
  /** A fenced code block. */
  | "code"
  /** A line that is too long: shown as plain text. */
  | "plain"
  /** The first rows of a long table, and further rows of the same table. */
  | "table"
  | "rows";

export interface Segment {
  readonly kind: SegmentKind;
  readonly start: number;
  readonly end: number;
  /** Start and end of the table's head, for `rows`. */
  readonly head: Range | null;
}

export type Range = readonly [start: number, end: number];

export const SEGMENT_MAX_CHARS = 32_768;
export const LINE_MAX_CHARS = 16_384;
export const PAGE_ROWS = 200;
const PAGE_MAX_CHARS = 16_384;
/** The maximum length of the line below the head of a table. */
const DELIMITERS_MAX_CHARS = 2_048;

const FENCE = /^( {0,3})(?:(`{3,})[^`]*|(~{3,}).*)$/;
const FENCE_CLOSED = /^ {0,3}(`{3,}|~{3,})[ \t]*$/;
const LIST = /^ {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?:[ \t]|$)/;
const BLANK = /^[ \t]*$/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const NO_ROW = /^(?: {4}|\t| {0,3}(?:#{1,6}(?:[ \t]|$)|>|<|`{3}|~{3}|[-+*][ \t]|[0-9]{1,9}[.)][ \t]))/;

/** Blocks of HTML that span blank lines: how they begin and how they end. */
const MARKUP: readonly (readonly [RegExp, RegExp])[] = [
  [/^ {0,3}<(?:script|pre|style|textarea)(?:[\s>]|$)/i, /<\/(?:script|pre|style|textarea)>/i],
  [/^ {0,3}<!--/, /-->|^-?>/],
  [/^ {0,3}<\?/, /\?>/],
  [/^ {0,3}<!\[CDATA\[/, /\]\]>/],
  [/^ {0,3}<![A-Za-z]/, />/],
];
/**
 * Other tags begin a block that a blank line ends, and in which a fence has no effect: these tags anywhere, any other
 * tag after a blank line.
 */
const BLOCK_TAG =
  /^ {0,3}<\/?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|meta|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul)(?:[\s/>]|$)/i;
const TAG = /^ {0,3}<\/?[A-Za-z][A-Za-z0-9-]*(?:[\s/][^>]*)?>[ \t]*$/;

type Mode =
  | { readonly is: "open" }
  | { readonly is: "fence"; readonly mark: string }
  /** `ends` is null for a block that a blank line ends. */
  | { readonly is: "markup"; readonly ends: RegExp | null };

const OPEN: Mode = { is: "open" };

/** Return true if a text is one table and nothing else. */
export type IsTable = (text: string) => boolean;

export class Segmenter {
  #mode: Mode = OPEN;
  #start = 0;
  #kind: SegmentKind = "text";
  /** A list has begun in this segment, and may continue after a blank line. */
  #list = false;
  #blank = true;
  /** Start and end of the head of the table to which this line may belong, and its rows in this segment. */
  #head: Range | null = null;
  #rows = 0;
  #lineBefore: Range | null = null;
  readonly #isTable: IsTable;

  constructor(isTable: IsTable) {
    this.#isTable = isTable;
  }

  clone(): Segmenter {
    const copy = new Segmenter(this.#isTable);
    copy.#mode = this.#mode;
    copy.#start = this.#start;
    copy.#kind = this.#kind;
    copy.#list = this.#list;
    copy.#blank = this.#blank;
    copy.#head = this.#head;
    copy.#rows = this.#rows;
    copy.#lineBefore = this.#lineBefore;
    return copy;
  }

  /** Read the line from `start` to `end` (without its line feed). Appends the segments that it settles. */
  feed(text: string, start: number, end: number, out: Segment[]): void {
    if (end - start > LINE_MAX_CHARS && this.#mode.is !== "fence") {
      this.#cut(start, out);
      this.#kind = "plain";
      this.#blank = false;
      return;
    }
    const line = text.slice(start, end);
    if (this.#kind === "plain" || (this.#kind === "code" && this.#mode.is === "open")) this.#cut(start, out);
    if (this.#mode.is === "fence") this.#feedFence(line, this.#mode.mark);
    else this.#feedOpen(text, line, start, out);
    this.#lineBefore = [start, end];
  }

  /** The segment that more text may change. */
  last(end: number): Segment | null {
    const head = this.#kind === "rows" ? this.#head : null;
    return end > this.#start ? { kind: this.#kind, start: this.#start, end, head } : null;
  }

  #cut(at: number, out: Segment[], kind: SegmentKind = "text"): void {
    const done = this.last(at);
    if (done) out.push(done);
    this.#start = at;
    this.#kind = kind;
    this.#list = false;
    this.#rows = 0;
    if (kind !== "rows") this.#head = null;
  }

  #feedFence(line: string, mark: string): void {
    const found = FENCE_CLOSED.exec(line)?.[1];
    if (found?.startsWith(mark)) this.#mode = OPEN;
    this.#blank = false;
  }

  #feedOpen(text: string, line: string, start: number, out: Segment[]): void {
    if (BLANK.test(line)) {
      this.#blank = true;
      if (this.#mode.is === "markup" && this.#mode.ends === null) this.#mode = OPEN;
      if (this.#kind === "rows") this.#cut(start, out);
      this.#head = null;
      return;
    }
    const afterBlank = this.#blank;
    this.#blank = false;
    if (this.#mode.is === "markup") {
      if (this.#mode.ends?.test(line)) this.#mode = OPEN;
      if (start - this.#start >= SEGMENT_MAX_CHARS) this.#cut(start, out);
      return;
    }
    const indented = line.startsWith(" ") || line.startsWith("\t");
    // An indented line may belong to the open block, so it is cut off only as a last resort.
    const full = start - this.#start >= SEGMENT_MAX_CHARS * (indented ? 2 : 1);
    if (full || (afterBlank && !indented && !(this.#list && LIST.test(line)))) this.#cut(start, out);
    if (this.#openFence(line, start, out)) return;
    this.#openMarkup(line, afterBlank || start === this.#start);
    this.#feedTable(text, line, start, out);
    if (LIST.test(line)) this.#list = true;
  }

  #openFence(line: string, start: number, out: Segment[]): boolean {
    const found = FENCE.exec(line);
    // Two spaces or more within a list: the fence belongs to the item, and to the lexer.
    if (!found || (this.#list && (found[1] ?? "").length > 1)) return false;
    this.#cut(start, out, "code");
    this.#mode = { is: "fence", mark: found[2] ?? found[3] ?? "" };
    return true;
  }

  #openMarkup(line: string, afterBlank: boolean): void {
    for (const [begins, ends] of MARKUP) {
      if (!begins.test(line)) continue;
      if (!ends.test(line.replace(begins, ""))) this.#mode = { is: "markup", ends };
      return;
    }
    if (BLOCK_TAG.test(line) || (afterBlank && TAG.test(line))) this.#mode = { is: "markup", ends: null };
  }

  #feedTable(text: string, line: string, start: number, out: Segment[]): void {
    const before = this.#lineBefore;
    if (this.#head === null) {
      if (!before || before[0] < this.#start || this.#list || line.length > DELIMITERS_MAX_CHARS) return;
      if (line.includes("-") && DELIMITERS.test(line) && text.slice(before[0], before[1]).includes("|"))
        this.#head = [before[0], start + line.length];
      return;
    }
    const from = this.#kind === "rows" ? this.#start : this.#head[0];
    if (NO_ROW.test(line)) {
      this.#head = null;
      if (this.#kind === "rows") this.#cut(start, out);
    } else if (this.#rows < PAGE_ROWS && start - from < PAGE_MAX_CHARS) {
      this.#rows += 1;
    } else if (this.#kind === "rows" || this.#isTable(text.slice(from, start))) {
      const head = this.#head;
      if (this.#kind !== "rows") {
        if (from > this.#start) this.#cut(from, out);
        this.#kind = "table";
      }
      this.#cut(start, out, "rows");
      this.#head = head;
      this.#rows = 1;
    } else {
      this.#head = null;
    }
  }
}
