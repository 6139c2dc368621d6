/**
 * Marked's lexer with our own formulas, footnotes and emphasis, and with limits: the author of an untrusted text
 * chooses its depth and length.
 *
 * Beyond a limit, text is shown without being parsed: within 24 nested blockquotes, within 24 nested spans, and in a
 * paragraph of more than 16 KB or with more than 600 characters that could begin something. The lexer takes quadratic
 * time or worse in those, so a paragraph of `[*a[*a[*a…` would take seconds without limits.
 */

import { type Hooks, Lexer, type Links, type Token, type Tokenizer, type Tokens, type TokensList } from "marked";
import { cutAddress } from "./address.ts";
import { pairMarks, type Span } from "./emphasis.ts";
import { findOpening, maskFormulas, readBlockFormula, readFormula } from "./math.ts";
import { noteKey, readNote, readReference } from "./notes.ts";

const DEPTH_MAX = 24;
const INLINE_MAX_CHARS = 16_384;
const OPENERS_MAX = 600;
const OPENERS = /[[*_~`<$]/g;
/** A block that may begin within a paragraph. */
const BLOCK = /\n(?= {0,3}(?:\$\$|\\\[|\[\^))/g;

export interface FormulaToken {
  readonly type: "formula";
  readonly raw: string;
  readonly tex: string;
  readonly display: boolean;
}

/** The explanation of a footnote. */
export interface NoteToken {
  readonly type: "note";
  readonly raw: string;
  readonly name: string;
  readonly tokens: Token[];
  /** It is the first of its name in the text. */
  first: boolean;
}

export interface ReferenceToken {
  readonly type: "reference";
  readonly raw: string;
  readonly name: string;
}

function takeFormula(found: ReturnType<typeof readFormula>): FormulaToken | undefined {
  return found ? { type: "formula", ...found } : undefined;
}

/** Return the offset at which a formula or a note interrupts a paragraph, -1 if there is none. */
function findBlock(src: string): number {
  const end = src.search(/\n[ \t]*\n/);
  const paragraph = end < 0 ? src : src.slice(0, end);
  for (const { index } of paragraph.matchAll(BLOCK)) {
    const rest = src.slice(index + 1);
    if (readBlockFormula(rest) || readNote(rest)) return index + 1;
  }
  return -1;
}

function isTooMuch(src: string): boolean {
  if (src.length > INLINE_MAX_CHARS) return true;
  return src.length > OPENERS_MAX && (src.match(OPENERS)?.length ?? 0) > OPENERS_MAX;
}

export class BoundedLexer extends Lexer {
  #blocks = 0;
  #inlines = 0;
  /** The block whose inline content is being parsed. */
  #inline = "";
  /** Its emphasis, computed on first use. */
  #spans: ReadonlyMap<number, Span> | null = null;
  readonly #notes: NoteToken[] = [];
  readonly #hooks = { emStrongMask: (masked: string) => maskFormulas(this.#inline, masked) } as Hooks;
  readonly #at: string;

  /** `at`: the offset of this text in the whole text, by which its notes are known. */
  constructor(at = 0) {
    super({ gfm: true });
    this.#at = String(at);
    this.options.extensions = {
      renderers: {},
      childTokens: {},
      block: [(src) => takeFormula(readBlockFormula(src)), (src) => this.#takeNote(src)],
      inline: [
        (src, tokens) => takeFormula(readFormula(src, 0, tokens.at(-1)?.raw.at(-1) ?? "")),
        (src) => this.#takeReference(src),
      ],
      startBlock: [findBlock],
      startInline: [findOpening],
    };
    this.#replaceRules(this.options.tokenizer as Tokenizer);
  }

  #replaceRules(tokenizer: Tokenizer): void {
    const url = tokenizer.url.bind(tokenizer);
    tokenizer.url = (src) => url(cutAddress(src));
    tokenizer.emStrong = (src, masked) => this.#takeSpan(src, masked);
    tokenizer.del = () => undefined; // `emStrong` has already run
  }

  #takeSpan(src: string, masked: string): Tokens.Em | Tokens.Strong | undefined {
    this.#spans ??= pairMarks(masked);
    const at = masked.length - src.length;
    const span = this.#spans.get(at);
    if (!span) return undefined;
    const { type, end } = span;
    const raw = src.slice(0, end - at);
    const width = type === "em" ? 1 : 2;
    const text = raw.slice(width, -width);
    return { type, raw, text, tokens: this.inlineTokens(text) } as Tokens.Em | Tokens.Strong;
  }

  #takeNote(src: string): NoteToken | undefined {
    const found = readNote(src);
    if (!found) return undefined;
    const { raw, name, text } = found;
    const key = noteKey(name);
    const known = Object.hasOwn(this.tokens.links, key);
    if (!known) this.tokens.links[key] = { href: "", title: this.#at };
    const { top } = this.state;
    const note: NoteToken = { type: "note", raw, name, tokens: this.blockTokens(text, []), first: !known };
    this.state.top = top;
    this.#notes.push(note);
    return note;
  }

  #takeReference(src: string): ReferenceToken | undefined {
    const found = readReference(src);
    return found && Object.hasOwn(this.tokens.links, noteKey(found.name)) ? { type: "reference", ...found } : undefined;
  }

  override blockTokens(src: string, tokens?: Token[], lastParagraphClipped?: boolean): Token[];
  override blockTokens(src: string, tokens?: TokensList, lastParagraphClipped?: boolean): TokensList;
  override blockTokens(src: string, tokens: Token[] = [], lastParagraphClipped = false): Token[] {
    if (this.#blocks >= DEPTH_MAX) {
      if (src !== "") tokens.push({ type: "text", raw: src, text: src });
      return tokens;
    }
    this.#blocks += 1;
    try {
      return super.blockTokens(src, tokens, lastParagraphClipped);
    } finally {
      this.#blocks -= 1;
    }
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    if (this.#inlines >= DEPTH_MAX || (this.#inlines === 0 && isTooMuch(src))) {
      tokens.push({ type: "text", raw: src, text: src });
      return tokens;
    }
    const [inline, spans] = [this.#inline, this.#spans];
    this.#inlines += 1;
    this.#inline = src;
    this.#spans = null;
    this.options.hooks = findOpening(src) < 0 ? null : this.#hooks;
    try {
      return super.inlineTokens(src, tokens);
    } finally {
      this.#inlines -= 1;
      [this.#inline, this.#spans] = [inline, spans];
    }
  }

  /** Parse the blocks of a text without their inline content. Returns the definitions of reference links in it. */
  readBlocks(src: string): Links {
    this.blockTokens(src, this.tokens);
    return this.tokens.links;
  }

  /** Parse the inline content of the blocks, with these definitions. */
  readInlines(links: Links): Token[] {
    this.tokens.links = links;
    for (const note of this.#notes) note.first &&= links[noteKey(note.name)]?.title === this.#at;
    for (const { src, tokens } of this.inlineQueue) {
      this.state.inRawBlock = false;
      this.inlineTokens(src, tokens);
    }
    this.inlineQueue = [];
    return this.tokens;
  }
}
