import fc from "fast-check";
import type { Token } from "marked";
import { describe, expect, it } from "vitest";
import { type Block, MarkdownDocument } from "../../src/markdown/document.ts";
import { BoundedLexer } from "../../src/markdown/lexer.ts";
import { orderlyTexts, texts } from "./texts.ts";

function read(text: string, growing = false): readonly Block[] {
  return new MarkdownDocument().update(text, growing);
}

/** The blocks of a text as the lexer alone parses it, by type and text. */
function readAtOnce(text: string): string[] {
  const lexer = new BoundedLexer();
  const links = lexer.readBlocks(text.replace(/\r\n?/g, "\n"));
  return lexer.readInlines(links).flatMap(sketch);
}

function sketch(token: Token): string[] {
  if (token.type === "space" || token.type === "def") return [];
  if (token.type === "code") return [`code ${token.lang?.split(/\s/, 1)[0] ?? ""} ${token.text.trim()}`];
  return [`${token.type} ${JSON.stringify(strip(token))}`];
}

/** A token without its source, which differs in trailing whitespace. */
function strip(token: Token): unknown {
  return JSON.parse(JSON.stringify(token, (key, value) => (key === "raw" ? undefined : value)));
}

function readByBlocks(text: string): string[] {
  return read(text).flatMap((block) => {
    if (block.is === "tokens") return block.tokens.flatMap(sketch);
    return block.is === "code" ? [`code ${block.language} ${block.code.trim()}`] : [];
  });
}

describe("a text that grows", () => {
  it("gives the same blocks as the whole text, wherever it was cut", () => {
    fc.assert(
      fc.property(texts, fc.array(fc.nat(), { maxLength: 12 }), (text, marks) => {
        const document = new MarkdownDocument();
        for (const cut of marks.map((mark) => mark % (text.length + 1)).sort((a, b) => a - b)) {
          document.update(text.slice(0, cut), true);
        }
        expect(document.update(text, false)).toEqual(read(text));
      }),
      { numRuns: 400 },
    );
  });

  it("has the blocks of its current text at every character", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const document = new MarkdownDocument();
        for (let end = 0; end <= Math.min(text.length, 160); end += 1) {
          expect(document.update(text.slice(0, end), true)).toEqual(read(text.slice(0, end), true));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("keeps its settled blocks", () => {
    const document = new MarkdownDocument();
    const before = document.update("# One\n\nTwo\n\nThr", true);
    const after = document.update("# One\n\nTwo\n\nThree and more", true);
    expect(after).toHaveLength(3);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(after[2]).not.toBe(before[2]);
  });

  it("parses a block again when a name in it is defined later", () => {
    const document = new MarkdownDocument();
    const before = document.update("See [Name].\n\nNothing here.\n\nMore\n\n", true);
    const after = document.update("See [Name].\n\nNothing here.\n\nMore\n\n[name]: https://example.com\n", true);
    expect(after[0]).not.toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(JSON.stringify(after[0])).toContain("https://example.com");
  });

  it("starts over for another text", () => {
    const document = new MarkdownDocument();
    document.update("# One\n\nTwo\n\nThree", true);
    expect(document.update("Other\n\ntext", false)).toEqual(read("Other\n\ntext"));
  });

  it("returns the same blocks for the same text", () => {
    const document = new MarkdownDocument();
    expect(document.update("# One\n\nTwo", true)).toBe(document.update("# One\n\nTwo", true));
  });
});

describe("a text in segments", () => {
  it("has the blocks that the lexer finds in the whole", () => {
    fc.assert(
      fc.property(orderlyTexts, (text) => {
        expect(readByBlocks(text)).toEqual(readAtOnce(text));
      }),
      { numRuns: 400 },
    );
  });
});
