/** Highlights code: highlight.js's scopes as three tones, line by line. Its HTML output is never created. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

/**
 * The languages' patterns take quadratic time in the length of a line, or of a run of spaces. Above these limits there
 * is no highlighting.
 *
 * Markdown is not among the languages: its patterns took two minutes for 20 KB of `[a](`.
 */
const LINE_MAX_CHARS = 1_000;
const TOO_MUCH = new RegExp(`[^\\n]{${LINE_MAX_CHARS}}|\\s{${LINE_MAX_CHARS}}`);

/** The three tones: the language's own words, literals, and comments. */
export type Tone = "" | "word" | "value" | "aside";

export interface Painted {
  readonly text: string;
  readonly tone: Tone;
}
export type PaintedLine = readonly Painted[];

const LANGUAGES = { bash, css, javascript, json, python, sql, typescript, xml, yaml };

const TONES: Readonly<Record<string, Tone>> = {
  keyword: "word",
  "keyword.operator": "word",
  built_in: "word",
  literal: "word",
  type: "word",
  name: "word",
  section: "word",
  "selector-tag": "word",
  bullet: "word",
  string: "value",
  number: "value",
  regexp: "value",
  symbol: "value",
  code: "value",
  link: "value",
  comment: "aside",
  quote: "aside",
  meta: "aside",
  doctag: "aside",
};

/** Collects pieces of text with their tone, in place of highlight.js's own tree. */
class Collector {
  readonly pieces: Painted[] = [];
  readonly #tones: Tone[] = [];

  addText(text: string): void {
    if (text !== "") this.pieces.push({ text, tone: this.#tones.at(-1) ?? "" });
  }

  startScope(scope: string): void {
    this.#tones.push(TONES[scope] ?? this.#tones.at(-1) ?? "");
  }

  endScope(): void {
    this.#tones.pop();
  }

  openNode(scope: string): void {
    this.startScope(scope);
  }

  closeNode(): void {
    this.endScope();
  }

  __addSublanguage(emitter: Collector): void {
    this.pieces.push(...emitter.pieces);
  }

  toHTML(): string {
    return "";
  }

  finalize(): void {}
}

for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);
// The option's type knows the methods above, but not that another emitter of the same kind replaces its own.
hljs.configure({ __emitter: Collector as never });

/** Return the lines of code with their tones; null for an unknown language, and for too much code. */
export function paint(code: string, language: string): PaintedLine[] | null {
  if (!hljs.getLanguage(language) || TOO_MUCH.test(code)) return null;
  const result = hljs.highlight(code, { language, ignoreIllegals: true });
  if (result.errorRaised) return null;
  const { pieces } = result._emitter as unknown as Collector;
  const lines: Painted[][] = [[]];
  for (const { text, tone } of pieces) {
    for (const [i, line] of text.split("\n").entries()) {
      if (i > 0) lines.push([]);
      if (line !== "") lines.at(-1)?.push({ text: line, tone });
    }
  }
  return lines;
}
