import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RequestView } from "../../src/api/index.ts";
import { indexOfRound, placeRounds } from "../../src/inspect/rounds_list.ts";
import { leftOut, type Row, requestRows, shortenedMost, systemSections } from "../../src/inspect/sections.ts";
import { load, NAMES, requestNumbers, requestOf, roundsOf } from "./load.ts";

function rowsOf(name: (typeof NAMES)[number], n: number): { view: RequestView; rows: readonly Row[] } {
  const data = load(name);
  const rounds = roundsOf(data);
  const all = placeRounds(rounds);
  const at = all.findIndex((one) => one.round.decided_n === n);
  const placed = all[at];
  if (placed === undefined) throw new Error(`no round ${n}`);
  expect(indexOfRound(all, placed.turn.turn_id, placed.round.iteration)).toBe(at);
  const turns = new Map(rounds.turns.map((turn, index) => [turn.turn_id, index + 1]));
  const view = requestOf(data, n);
  return { view, rows: requestRows(view, placed, all[at - 1] ?? null, turns) };
}

const marksOf = (rows: readonly Row[]) => rows.flatMap((row) => (row.is === "mark" ? [row] : []));
const shownOf = (rows: readonly Row[]) =>
  rows.flatMap((row) => (row.is === "piece" ? [row.shown] : row.is === "turn" ? row.pieces : []));

const EVERY = NAMES.flatMap((name) => requestNumbers(load(name)).map((n) => [name, n] as const));

describe.each(EVERY)("the request of %s at batch %i", (name, n) => {
  const { view, rows } = rowsOf(name, n);

  it("has every piece once and in order", () => {
    expect(shownOf(rows).map((one) => one.piece)).toEqual(view.parts.flatMap((part) => part.pieces));
  });

  it("has at most four marks with the tokens before each, and after the last only parts that are sent every time", () => {
    const marks = marksOf(rows);
    expect(marks.length).toBeGreaterThan(0);
    expect(marks.length).toBeLessThanOrEqual(4);
    const sums = view.parts.map((_, at) => view.parts.slice(0, at + 1).reduce((sum, part) => sum + part.tokens, 0));
    expect(marks.map((mark) => mark.tokens)).toEqual(sums.filter((_, at) => view.parts[at]?.mark));
    const after = rows.slice(rows.findLastIndex((row) => row.is === "mark") + 1);
    expect(after.every((row) => row.is === "piece" && row.shown.everyTime)).toBe(true);
  });
});

describe("marks", () => {
  it("name the preceding part", () => {
    const { rows } = rowsOf("stage", 26);
    expect(marksOf(rows).map((mark) => mark.what)).toEqual([
      "the system part",
      "the end of turn 3",
      "the end of the previous request",
      "the end of the timeline",
    ]);
  });
});

describe("pieces", () => {
  it("of earlier turns fold into one row a turn, those of the newest stay separate", () => {
    const { rows } = rowsOf("stage", 26);
    expect(rows.filter((row) => row.is === "turn").map((row) => row.is === "turn" && row.turn)).toEqual([1, 2, 3]);
  });

  it("are new if they were added since the previous request, unless they are sent every time", () => {
    const shown = shownOf(rowsOf("stage", 26).rows);
    expect(shown.filter((one) => one.isNew).every((one) => one.cache === "written")).toBe(true);
    expect(shown.filter((one) => one.everyTime).map((one) => one.piece.kind)).toEqual(["sources", "announce"]);
  });

  it("explain why and from how much they were shortened, and the largest are listed below their folded turn", () => {
    const whys = EVERY.filter(([name]) => name === "reduced").flatMap(([name, n]) =>
      shownOf(rowsOf(name, n).rows).flatMap((one) => one.piece.reduced?.why ?? []),
    );
    expect([...new Set(whys)].sort()).toEqual(["compacted", "hidden", "pruned: price", "pruned: ttl"]);
    const { rows, view } = rowsOf("reduced", 30);
    expect(leftOut(view)).toBeGreaterThan(4_000);
    const [first] = rows.flatMap((row) => (row.is === "turn" ? [row] : []));
    expect(shortenedMost(first?.pieces ?? []).map((one) => one.piece.kind)).toEqual(["result", "result"]);
  });
});

describe("the system part", () => {
  it("folds into its sections", () => {
    const admin = Object.values(load("stage").admin)[0] as RequestView;
    const text = admin.parts[0]?.pieces[0]?.text ?? "";
    const titles = systemSections(text).map((section) => section.title);
    expect(titles).toContain("How you answer");
    expect(titles.some((title) => title.startsWith("[TOOLS]"))).toBe(true);
  });

  it("loses no character in its sections, for any text", () => {
    const lines = fc.array(fc.constantFrom("# A\n", "[TOOLS] x\n", "text\n", "\n", "## sub\n", "#", "[", "end"));
    fc.assert(
      fc.property(lines, (parts) => {
        const text = parts.join("");
        expect(
          systemSections(text)
            .map((section) => section.text)
            .join(""),
        ).toBe(text);
      }),
    );
  });
});
