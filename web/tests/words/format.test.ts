import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  formatBytes,
  formatClock,
  formatDay,
  formatIn,
  formatMs,
  formatOrdinal,
  formatPercent,
  formatQuantity,
  formatTime,
  formatTokens,
  formatUsd,
  formatUtc,
  sayReadout,
} from "../../src/words/index.ts";

describe("numbers", () => {
  test.each([
    [0, "0"],
    [812, "812"],
    [999, "999"],
    [1000, "1k"],
    [9512, "9.5k"],
    [14_800, "14.8k"],
    [81_000, "81k"],
    [123_456, "123k"],
    [999_999, "1M"],
    [1_234_567, "1.2M"],
  ])("%d tokens are %s", (tokens, text) => {
    expect(formatTokens(tokens)).toBe(text);
  });

  test.each([
    [0, "0 B"],
    [812, "812 B"],
    [1024, "1 KB"],
    [15_155, "14.8 KB"],
    [131_072, "128 KB"],
    [104_857_600, "100 MB"],
  ])("%d bytes are %s", (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  test("a larger number never has a smaller text in the same unit", () => {
    fc.assert(
      fc.property(fc.nat(999), (tokens) => {
        expect(Number(formatTokens(tokens))).toBe(tokens);
      }),
    );
  });

  test("ordinals and shares", () => {
    expect([1, 2, 3, 4, 11, 12, 13, 21, 102].map(formatOrdinal)).toEqual([
      "1st",
      "2nd",
      "3rd",
      "4th",
      "11th",
      "12th",
      "13th",
      "21st",
      "102nd",
    ]);
    expect(formatPercent(0.547)).toBe("55%");
  });
});

test.each([
  [0, "0"],
  [0.000423, "0.000423"],
  [3.2, "3.2"],
  [1204.4, "1,204"],
])("a quantity of %d is %s", (value, text) => {
  expect(formatQuantity(value)).toBe(text);
});

describe("dollars", () => {
  test.each([
    [0, "$0.00"],
    [0.00001, "<$0.0001"],
    [0.0042, "$0.0042"],
    [0.5, "$0.50"],
    [12.345, "$12.35"],
    [1234, "$1,234.00"],
  ])("%d is %s", (usd, text) => {
    expect(formatUsd(usd)).toBe(text);
  });
});

describe("times", () => {
  test("the end of a limit is shown in UTC, in which it is counted", () => {
    expect(formatUtc(Date.UTC(2026, 11, 1))).toBe("1 Dec, 00:00 UTC");
  });

  test.each([
    [0, "0 ms"],
    [142, "142 ms"],
    [3200, "3.2 s"],
    [59_949, "59.9 s"],
    [59_950, "1 min 0 s"],
    [124_000, "2 min 4 s"],
    [3_599_900, "1 h 0 min"],
    [3_840_000, "1 h 4 min"],
  ])("%d ms took %s", (ms, text) => {
    expect(formatMs(ms)).toBe(text);
  });

  test.each([
    [-5, "00:00.0"],
    [14_290, "00:14.2"],
    [59_999, "00:59.9"],
    [60_000, "01:00.0"],
    [3_614_000, "1:00:14"],
  ])("a clock at %d ms shows %s", (ms, text) => {
    expect(formatClock(ms)).toBe(text);
  });

  test("the time of day has two digits for hours and minutes", () => {
    expect(formatTime(new Date(2026, 10, 25, 9, 4).getTime())).toBe("09:04");
    expect(formatTime(new Date(2026, 10, 25, 0, 5).getTime())).toBe("00:05");
  });
});

describe("the end of a limit", () => {
  test("has a day and a time", () => {
    expect(formatDay(new Date(2026, 11, 3, 21, 40).getTime())).toBe("Thu 3 Dec");
  });

  test.each([
    [0, "in 0 seconds"],
    [1_000, "in 1 second"],
    [89_000, "in 89 seconds"],
    [558_000, "in 9 minutes"],
    [3 * 3_600_000, "in 3 hours"],
    [604_800_000, "in 7 days"],
    [604_000_000, "in 7 days"],
  ])("%d ms away is %s", (ms, text) => {
    expect(formatIn(ms)).toBe(text);
  });
});

describe("the readout", () => {
  test.each([
    [{ is: "idle" }, "idle"],
    [{ is: "thinking", round: 3 }, "round 3 · thinking"],
    [{ is: "writing", round: 3, name: "plan.md" }, "round 3 · writing plan.md"],
    [{ is: "calling", round: 1, toolId: "react.read" }, "round 1 · react.read"],
    [{ is: "program", round: 2 }, "round 2 · program"],
    [{ is: "approval", round: 2, toolId: "bank.pay" }, "round 2 · waiting for your approval"],
    [{ is: "ending", left: 2 }, "finishing, 2 rounds left"],
    [{ is: "ending", left: 1 }, "finishing, 1 round left"],
    [{ is: "stopping" }, "stopping"],
  ] as const)("%o says %s", (readout, text) => {
    expect(sayReadout(readout, 0)).toBe(text);
  });
});
