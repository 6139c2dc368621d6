import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findSeparator, parseCsv, readCsv } from "../../src/preview/csv.ts";

/** Write records as in RFC 4180, every cell quoted. */
function write(records: readonly (readonly string[])[], end: string): string {
  return records.map((record) => record.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(",")).join(end);
}

describe("comma-separated values", () => {
  it("are parsed as they were written, for any cell content", () => {
    const cells = fc.array(fc.string({ unit: fc.constantFrom(...'",;\r\n ab\0é😀') }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.array(cells, { maxLength: 6 }), fc.constantFrom("\n", "\r\n", "\r"), (records, end) => {
        const blank = (record: readonly string[]) => record.length === 1 && record[0] === "";
        expect(parseCsv(write(records, end), ",")).toEqual(records.filter((record) => !blank(record)));
      }),
    );
  });

  it.each([
    [
      "a,b\n1,2\n",
      [
        ["a", "b"],
        ["1", "2"],
      ],
    ],
    [
      "a,b\r\n1,\r\n",
      [
        ["a", "b"],
        ["1", ""],
      ],
    ],
    ["a\n\n\nb", [["a"], ["b"]]],
    ['"x, y","line\nbreak"\n', [["x, y", "line\nbreak"]]],
    ['a"b,c"d', [['a"b', 'c"d']]],
    ['"a"b,c', [["ab", "c"]]],
    ['"never closed,\nb', [["never closed,\nb"]]],
    [",,\n", [["", "", ""]]],
    ["", []],
  ])("are read leniently: %j", (text, records) => {
    expect(parseCsv(text, ",")).toEqual(records);
  });

  it("may have another separator", () => {
    expect(findSeparator("a;b;c\n1,2")).toBe(";");
    expect(findSeparator("a\tb\n")).toBe("\t");
    expect(findSeparator('"a;b;c",d\n')).toBe(",");
    expect(findSeparator("a|b|c\n")).toBe("|");
    expect(findSeparator("one")).toBe(",");
  });

  it("have a header and rows", () => {
    expect(readCsv("a,b\n1,2\n3,4")).toEqual({
      header: ["a", "b"],
      rows: [
        ["1", "2"],
        ["3", "4"],
      ],
    });
    expect(readCsv("")).toEqual({ header: [], rows: [] });
  });

  it("are parsed up to a megabyte", () => {
    expect(readCsv("a,b,c\n".repeat(170_000)).rows).toHaveLength(169_999);
    expect(parseCsv('"'.repeat(1_000_000), ",")).toHaveLength(1);
    expect(parseCsv(`a${'"'.repeat(1_000_000)}`, ",")).toHaveLength(1);
  });
});
