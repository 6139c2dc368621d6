import { describe, expect, it } from "vitest";
import {
  type Batch,
  batchOf,
  EMPTY_BOOK,
  noteOf,
  pageOf,
  promptOf,
  rangeAround,
  systemSince,
  withPage,
} from "../../src/inspect/log_book.ts";
import { bookOf, load, roundsOf } from "./load.ts";

const data = load("stage");
const book = bookOf(data);
const [first, , , last] = roundsOf(data).turns;

function page(number: number): readonly Batch[] {
  return Array.from({ length: 50 }, (_, at) => ({
    n: number * 50 + at + 1,
    at: "",
    entries: [],
    state: {} as Batch["state"],
  }));
}

describe("a log", () => {
  it("names turns by their prompt and rounds by their notes", () => {
    expect(promptOf(book, last?.opened_n ?? 0)).toBe(
      "Search for prompt injection and write what you find to a file cache.md",
    );
    expect(noteOf(book, last?.rounds[1]?.decided_n ?? 0)).toBe("Writing cache.md");
    expect(noteOf(book, last?.rounds[2]?.decided_n ?? 0)).toBe("Everything asked for is settled; I answer.");
  });

  it("returns nothing for pages that are not loaded", () => {
    expect([promptOf(EMPTY_BOOK, 1), noteOf(EMPTY_BOOK, 2), batchOf(book, 999), rangeAround(book, 999)]).toEqual([
      "",
      "",
      null,
      null,
    ]);
  });

  it("returns the turn since which the system part is unchanged", () => {
    expect(systemSince(book, last?.rounds[0]?.decided_n ?? 0)).toBe(first?.turn_id);
    expect(systemSince(book, first?.rounds[0]?.decided_n ?? 0)).toBe("");
    expect(systemSince(EMPTY_BOOK, 9)).toBe("");
  });

  it("has pages of fifty batches, and shows adjacent loaded ones", () => {
    expect([1, 50, 51, 100, 101].map(pageOf)).toEqual([0, 0, 1, 1, 2]);
    let read = withPage(EMPTY_BOOK, 0, page(0), 50);
    read = withPage(read, 2, page(2), 150);
    expect(rangeAround(read, 120)).toMatchObject({ first: 2, last: 2 });
    read = withPage(read, 1, page(1), 100);
    expect(rangeAround(read, 120)).toMatchObject({ first: 0, last: 2 });
    expect(rangeAround(read, 120)?.batches.map((batch) => batch.n)).toEqual(
      Array.from({ length: 150 }, (_, at) => at + 1),
    );
  });

  it("has a last page until it continues", () => {
    const ended = withPage(EMPTY_BOOK, 3, page(3), null);
    expect([ended.last, withPage(ended, 3, page(3), 200).last, withPage(ended, 0, page(0), 50).last]).toEqual([
      3,
      null,
      3,
    ]);
  });
});
