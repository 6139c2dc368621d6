/**
 * Marked's lexer with bounds: a stranger chooses how deep and how long.
 *
 * Beyond a bound text stays text. It is shown, and not understood: within 24 blockquotes of each other, within 24 spans of each
 * other, and in a paragraph of more than 16 KB or with more than 600 characters that could begin something. The lexer's time for a
 * paragraph is quadratic and worse in those, so a paragraph of `[*a[*a[*a…` would take seconds without them.
 */

import { Lexer, type Links, type Token, type TokensList } from "marked";

const DEPTH_MAX = 24;
const INLINE_MAX_CHARS = 16_384;
const OPENERS_MAX = 600;
const OPENERS = /[[*_~`<]/g;

function isTooMuch(src: string): boolean {
  if (src.length > INLINE_MAX_CHARS) return true;
  return src.length > OPENERS_MAX && (src.match(OPENERS)?.length ?? 0) > OPENERS_MAX;
}

export class BoundedLexer extends Lexer {
  #blocks = 0;
  #inlines = 0;

  constructor() {
    super({ gfm: true });
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
    this.#inlines += 1;
    try {
      return super.inlineTokens(src, tokens);
    } finally {
      this.#inlines -= 1;
    }
  }

  /** Take the blocks of a text apart, and nothing within them. Returns the definitions of reference links in it. */
  readBlocks(src: string): Links {
    this.blockTokens(src, this.tokens);
    return this.tokens.links;
  }

  /** Take apart what is within the blocks, by these definitions. */
  readInlines(links: Links): Token[] {
    this.tokens.links = links;
    for (const { src, tokens } of this.inlineQueue) {
      this.state.inRawBlock = false;
      this.inlineTokens(src, tokens);
    }
    this.inlineQueue = [];
    return this.tokens;
  }
}
