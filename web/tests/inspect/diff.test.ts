import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { diffRows, firstChanged } from "../../src/inspect/diff_rows.ts";
import { diffWords, nearChanges } from "../../src/inspect/word_diff.ts";
import { diffNumbers, diffOf, load, NAMES } from "./load.ts";

const EVERY = NAMES.flatMap((name) => diffNumbers(load(name)).map(([n, to]) => [name, n, to] as const));

describe.each(EVERY)("the difference of %s from batch %i to %i", (name, n, to) => {
  const diff = diffOf(load(name), n, to);
  const rows = diffRows(diff);

  it("has every piece of the newer request, and the removed ones", () => {
    const pieces = rows.flatMap((row) => (row.is === "piece" ? [row.piece] : row.is === "first" ? [] : row.pieces));
    expect(pieces).toEqual(diff.runs.flatMap((run) => run.pieces));
  });

  it("marks the first difference after identical pieces only", () => {
    const at = rows.findIndex((row) => row.is === "first");
    expect(at).toBeGreaterThanOrEqual(0);
    expect(rows.slice(0, at).every((row) => row.is === "same")).toBe(true);
    const before = rows.slice(0, at).reduce((sum, row) => sum + (row.is === "same" ? row.tokens : 0), 0);
    expect(before).toBe(diff.first_difference?.at_tokens);
    expect(firstChanged(rows)).toBe(rows[at + 1]?.key);
  });
});

it("of a round only adds to the previous request, except for the parts that are sent every time", () => {
  const rows = diffRows(diffOf(load("stage"), 24, 26));
  const changed = rows.flatMap((row) => (row.is === "piece" && row.op === "changed" ? [row.piece.kind] : []));
  expect(changed).toEqual(["announce"]);
});

it("starts at a hidden block, with its older form next to it", () => {
  const rows = diffRows(diffOf(load("reduced"), 11, 13));
  const first = rows.find((row) => row.key === firstChanged(rows));
  expect(first?.is === "piece" && [first.op, first.piece.reduced?.why, first.before?.text.includes("seal")]).toEqual([
    "changed",
    "hidden",
    true,
  ]);
});

describe("changed words", () => {
  const text = fc.array(fc.constantFrom("a", "bb", " ", "\n", "ä", "𝒳", ",", "word ")).map((parts) => parts.join(""));
  const join = (all: ReturnType<typeof diffWords>, without: string) =>
    all
      .filter((one) => one.is !== without)
      .map((one) => one.text)
      .join("");

  it("give the older text without additions, and the newer one without removals", () => {
    fc.assert(
      fc.property(text, text, (older, newer) => {
        const all = diffWords(older, newer);
        expect(join(all, "added")).toBe(older);
        expect(join(all, "removed")).toBe(newer);
      }),
    );
  });

  it("are found in finite time for texts without common words", () => {
    const older = Array.from({ length: 4_000 }, (_, at) => `a${at}`).join(" ");
    const newer = Array.from({ length: 4_000 }, (_, at) => `b${at}`).join(" ");
    const all = diffWords(older, newer);
    expect([join(all, "added"), join(all, "removed")]).toEqual([older, newer]);
  });

  it("leave out text far from a change", () => {
    const long = "same ".repeat(500);
    const near = nearChanges(diffWords(`${long}one`, `${long}two`));
    expect(near[0]?.text.length).toBeLessThan(200);
    expect(near.slice(1).map((one) => one.text)).toEqual(["one", "two"]);
  });
});
