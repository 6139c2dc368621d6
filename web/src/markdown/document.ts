/**
 * A Markdown text as blocks, which may grow: settled blocks stay the same objects, and only the last is parsed again.
 *
 * A definition (`[name]: address`) turns every `[name]` of the text into a link, before and after it. Every block
 * therefore remembers the names it may refer to, and is parsed again when the meaning of one changes.
 */

import type { Links, Token, Tokens } from "marked";
import { BoundedLexer } from "./lexer.ts";
import { type Range, type Segment, Segmenter } from "./segments.ts";

export type Block =
  /** `whole` is false while the text may still grow. */
  | { readonly is: "tokens"; readonly tokens: readonly Token[]; readonly whole: boolean }
  | { readonly is: "code"; readonly code: string; readonly language: string; readonly whole: boolean }
  | { readonly is: "plain"; readonly text: string }
  /** Further rows of the previous table, prefixed with its head; they are parsed when they are shown. */
  | { readonly is: "rows"; readonly source: string; readonly count: number };

/** Above this number of definitions, none of them applies. */
const DEFINITIONS_MAX = 1_000;

const LINE_ENDS = /\r\n?/g;
const NAMES = /\[((?:[^[\]\\]|\\.){1,999})\]/gs;
const FENCE = /^( {0,3})(`{3,}|~{3,})(.*)/;
const ESCAPED = /\\([!-/:-@[-`{-~])/g;

type Definition = Links[string];

/** A segment whose blocks are known, but not their inline content yet. */
interface Draft {
  readonly segment: Segment;
  readonly source: string;
  readonly lexer: BoundedLexer | null;
  /** The names that it defines. */
  readonly links: Links;
}

interface Piece {
  readonly draft: Draft;
  readonly block: Block;
  /** It was parsed as complete. */
  readonly whole: boolean;
}

function noLinks(): Links {
  return Object.create(null) as Links;
}

/** Return the name of a reference as the lexer compares it. */
function normalizeName(name: string): string {
  return name.trim().replace(/\s+/g, " ").toLowerCase().toUpperCase().toLowerCase();
}

/** Return the names that a text may refer to, without duplicates. */
function findNames(source: string): Set<string> {
  return new Set(Array.from(source.matchAll(NAMES), (found) => normalizeName(found[1] ?? "")));
}

function isSame(one: Definition | undefined, other: Definition | undefined): boolean {
  return one?.href === other?.href && one?.title === other?.title;
}

/** Return a table's token by its source, or null if the source is not exactly one table. */
function readTable(source: string, links: Links): Tokens.Table | null {
  const lexer = new BoundedLexer();
  lexer.readBlocks(source);
  const [table, ...others] = lexer.readInlines(links);
  return table?.type === "table" && others.length === 0 ? (table as Tokens.Table) : null;
}

function readCode(source: string, settled: boolean): Block {
  const headEnd = source.indexOf("\n");
  const [, indent = "", mark = "", info = ""] = FENCE.exec(headEnd < 0 ? source : source.slice(0, headEnd)) ?? [];
  const language = (info.trim().split(/\s/, 1)[0] ?? "").replace(ESCAPED, "$1");
  if (headEnd < 0) return { is: "code", code: "", language, whole: settled };
  const lines = source.endsWith("\n") ? source.slice(headEnd + 1, -1) : source.slice(headEnd + 1);
  const lastStart = lines.lastIndexOf("\n") + 1;
  const closed = new RegExp(`^ {0,3}${mark}${mark.charAt(0)}*[ \\t]*$`).test(lines.slice(lastStart));
  const code = closed ? lines.slice(0, Math.max(lastStart - 1, 0)) : lines;
  const margin = new RegExp(`^ {0,${indent.length}}`, "gm");
  return { is: "code", code: indent ? code.replace(margin, "") : code, language, whole: closed || settled };
}

export class MarkdownDocument {
  #text = "";
  #growing = true;
  #blocks: readonly Block[] = [];
  #segmenter = new Segmenter((source) => readTable(source, noLinks()) !== null);
  /** The length of the text that the segmenter has read: whole lines. */
  #read = 0;
  #settled: Piece[] = [];
  /** The blocks of the rest, if the text ends here. */
  #tail: readonly Piece[] = [];
  /** The meaning of each name by its first definition, and the names that the unsettled end defines. */
  #links = noLinks();
  #defined = 0;
  #tailNames: readonly string[] = [];
  /** The settled pieces that may refer to a name. */
  #users = new Map<string, number[]>();

  /** Set the current text. Returns its blocks; an unchanged one is the same object as before. */
  update(raw: string, growing: boolean): readonly Block[] {
    const text = raw.replace(LINE_ENDS, "\n").replaceAll("\0", "\ufffd");
    if (text === this.#text && growing === this.#growing) return this.#blocks;
    if (!text.startsWith(this.#text)) this.#reset();
    this.#text = text;
    this.#growing = growing;
    let fresh = this.#readLines().map((segment) => this.#draft(segment));
    let tail = this.#readTail().map((segment) => this.#draft(segment));
    const changed = this.#redefine(fresh, tail);
    if (changed.length > 0) {
      this.#tail = []; // it was parsed with the old meaning of the names
      fresh = fresh.map((draft) => this.#draft(draft.segment));
      tail = tail.map((draft) => this.#draft(draft.segment));
      for (const name of changed) this.#refresh(name);
    }
    for (const draft of fresh) this.#settle(draft);
    this.#tail = tail.map((draft, i) => this.#complete(draft, !growing || i < tail.length - 1));
    this.#blocks = [...this.#settled, ...this.#tail].map((piece) => piece.block);
    return this.#blocks;
  }

  /** Parse the rows of a table's further page; null if they are not rows. */
  readRows(block: Block): Tokens.Table | null {
    return block.is === "rows" ? readTable(block.source, this.#links) : null;
  }

  #reset(): void {
    this.#segmenter = new Segmenter((source) => readTable(source, noLinks()) !== null);
    this.#read = 0;
    this.#settled = [];
    this.#tail = [];
    this.#links = noLinks();
    this.#defined = 0;
    this.#tailNames = [];
    this.#users = new Map();
  }

  /** Return the segments that the new whole lines have settled. */
  #readLines(): Segment[] {
    const segments: Segment[] = [];
    for (let end = this.#text.indexOf("\n", this.#read); end >= 0; end = this.#text.indexOf("\n", this.#read)) {
      this.#segmenter.feed(this.#text, this.#read, end, segments);
      this.#read = end + 1;
    }
    return segments;
  }

  /** Return the rest as if the text were complete. */
  #readTail(): Segment[] {
    const segments: Segment[] = [];
    const segmenter = this.#segmenter.clone();
    if (this.#read < this.#text.length) segmenter.feed(this.#text, this.#read, this.#text.length, segments);
    const last = segmenter.last(this.#text.length);
    return last ? [...segments, last] : segments;
  }

  #draft(segment: Segment): Draft {
    const { kind, start, end } = segment;
    // The text before a cut never changes, so the blocks of the end are final once it is before a cut.
    const known = this.#tail.find(
      ({ draft: { segment: old } }) => old.kind === kind && old.start === start && old.end === end,
    );
    if (known) return known.draft;
    const source = this.#text.slice(segment.start, segment.end);
    if (segment.kind !== "text" && segment.kind !== "table") return { segment, source, lexer: null, links: noLinks() };
    const lexer = new BoundedLexer(start);
    return { segment, source, lexer, links: lexer.readBlocks(source) };
  }

  #complete(draft: Draft, whole: boolean): Piece {
    const known = this.#tail.find((piece) => piece.draft === draft && piece.whole === whole);
    return known ?? { draft, block: this.#finish(draft, whole), whole };
  }

  #finish({ segment, source, lexer }: Draft, whole: boolean): Block {
    if (lexer) return { is: "tokens", tokens: lexer.readInlines(this.#links), whole };
    if (segment.kind === "code") return readCode(source, whole);
    if (segment.kind === "plain") return { is: "plain", text: source };
    const head = this.#slice(segment.head ?? [0, 0]);
    const count = source.split("\n").filter((line) => line.trim() !== "").length;
    return { is: "rows", source: `${head}\n${source}`, count };
  }

  #slice([start, end]: Range): string {
    return this.#text.slice(start, end);
  }

  /** Replace the old end's definitions with those of the new drafts. Returns the names whose meaning has changed. */
  #redefine(fresh: readonly Draft[], tail: readonly Draft[]): string[] {
    const touched = [...this.#tailNames, ...[...fresh, ...tail].flatMap((draft) => Object.keys(draft.links))];
    if (touched.length === 0) return [];
    const before = new Map(touched.map((name) => [name, this.#links[name]]));
    for (const name of this.#tailNames) this.#undefine(name);
    for (const draft of fresh) this.#define(draft.links);
    this.#tailNames = tail.flatMap((draft) => this.#define(draft.links));
    return [...before.keys()].filter((name) => !isSame(before.get(name), this.#links[name]));
  }

  #undefine(name: string): void {
    if (Object.hasOwn(this.#links, name)) this.#defined -= 1;
    delete this.#links[name];
  }

  /** Returns the names that had no meaning before. */
  #define(links: Links): string[] {
    const added: string[] = [];
    for (const [name, definition] of Object.entries(links)) {
      if (this.#defined >= DEFINITIONS_MAX || Object.hasOwn(this.#links, name)) continue;
      this.#links[name] = definition;
      this.#defined += 1;
      added.push(name);
    }
    return added;
  }

  /** Parse the settled pieces again that may refer to a name. */
  #refresh(name: string): void {
    for (const i of this.#users.get(name) ?? []) {
      const piece = this.#settled[i];
      if (piece) this.#settled[i] = this.#complete(this.#draft(piece.draft.segment), true);
    }
  }

  #settle(draft: Draft): void {
    const at = this.#settled.push(this.#complete(draft, true)) - 1;
    if (draft.segment.kind === "code" || draft.segment.kind === "plain") return;
    for (const name of findNames(draft.source)) {
      const users = this.#users.get(name);
      if (users) users.push(at);
      else this.#users.set(name, [at]);
    }
  }
}
