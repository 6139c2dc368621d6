import { describe, expect, it } from "vitest";
import { cutText, FOLDED_BYTES, oneLine, SHOWN_LINES, showHidden } from "../../src/inspect/text.ts";

describe("a text", () => {
  it("has a symbol for each hidden character", () => {
    expect(showHidden("a\u0000b\u007fc\u202ed\u{e0041}e\tf\r\ng\rh")).toBe("a␀b␡c\ufffdd\ufffde\tf\ng␍h");
  });

  it("is cut at a whole character on one line", () => {
    expect(oneLine("  a \n b  ")).toBe("a b");
    expect(oneLine("𝒳".repeat(20), 5)).toBe("𝒳𝒳𝒳𝒳…");
  });

  it("is shown in full if it is short, and by its first lines if it is not", () => {
    expect(cutText("\none\ntwo\n")).toMatchObject({ shown: "one\ntwo", whole: true });
    const many = Array.from({ length: 40 }, (_, at) => `line ${at}`).join("\n");
    expect(cutText(many)).toMatchObject({ lines: 40, whole: false });
    expect(cutText(many).shown.split("\n").length).toBe(SHOWN_LINES);
  });

  it("above twenty kilobytes folds to the beginning of its first line", () => {
    const huge = "x".repeat(1024 * 1024);
    expect(cutText(huge)).toMatchObject({ lines: 1, bytes: 1024 * 1024, whole: false });
    expect(cutText(huge).shown.length).toBeLessThan(FOLDED_BYTES / 10);
    expect(cutText(`first\n${"y\n".repeat(FOLDED_BYTES)}`).shown).toBe("first");
  });
});
