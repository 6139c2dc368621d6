// @vitest-environment happy-dom
/** Texts of scripts without spaces between words, and the marks next to their letters and their punctuation. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { draw } from "./drawing.ts";

const LETTERS: readonly string[] = ["内容", "正文は", "です", "カタカナ", "합니다", "ㄅㄆ", "𠮷野", "ครับ", "ສະບາຍ"];
const PAIRS: readonly (readonly [string, string])[] = [
  ["「", "」"],
  ["『", "』"],
  ["（", "）"],
  ["【", "】"],
  ["《", "》"],
  ["“", "”"],
  ["‘", "’"],
  ['"', '"'],
  ["(", ")"],
  ["[", "]"],
  ["", "："],
  ["", "。"],
  ["", "！"],
  ["", "……"],
  ["", "%"],
  ["", ":"],
  ["$", ""],
  ["#", ""],
  ["", "。」"],
];
const MARKS: readonly (readonly [string, string])[] = [
  ["**", "strong"],
  ["*", "em"],
  ["***", "em > strong"],
  ["~~", "del"],
];

const letters = fc.constantFrom(...LETTERS);

describe("emphasis next to letters without spaces", () => {
  it.each(MARKS)("begins and ends at any punctuation: %s", (mark, selector) => {
    fc.assert(
      fc.property(letters, fc.constantFrom(...PAIRS), letters, letters, (before, [open, close], inner, after) => {
        const text = `${open}${inner}${close}`;
        const root = draw(`${before}${mark}${text}${mark}${after}`);
        expect(Array.from(root.querySelectorAll(selector), (one) => one.textContent)).toEqual([text]);
        expect(root.textContent).toBe(`${before}${text}${after}`);
      }),
    );
  });

  it("is found as often as it is written", () => {
    const root = draw(
      "**注意：**正文，**「重点」**和*（次要）*。\n\n- **标题：**内容\n\n| 甲 | 乙 |\n|---|---|\n| **“词”**的 | 无 |",
    );
    expect(Array.from(root.querySelectorAll("strong"), (one) => one.textContent)).toEqual([
      "注意：",
      "「重点」",
      "标题：",
      "“词”",
    ]);
    expect(root.querySelector("em")?.textContent).toBe("（次要）");
  });

  it.each(["**「重点」 **内容", "2 * 3 * 4", "a**(b)**c", "名_前_は"])("is none where none is written: %s", (text) => {
    const root = draw(text);
    expect(root.querySelector("strong, em")).toBeNull();
    expect(root.textContent).toBe(text);
  });
});

describe("a tilde", () => {
  const numbers = fc.tuple(
    fc.constantFrom("~", "~ ", "3~", "约~"),
    fc.constantFrom("5", "10分钟", "$4", "/home", "x。"),
  );

  it("alone is a tilde, however many there are", () => {
    fc.assert(
      fc.property(fc.array(numbers, { minLength: 1, maxLength: 6 }), (words) => {
        const text = `It is ${words.map((word) => word.join("")).join(" to ")}`;
        const root = draw(text);
        expect(root.querySelector("del")).toBeNull();
        expect(root.textContent).toBe(text);
      }),
    );
  });

  it("next to another strikes out", () => {
    expect(draw("~5 is ~~not~~ ~6").querySelector("del")?.textContent).toBe("not");
  });
});

describe("a bare address in a sentence without spaces", () => {
  const addresses = fc.constantFrom(
    "https://example.com",
    "http://example.com/",
    "https://example.com/a/b.html",
    "https://example.com/a?b=c&d=e#f",
    "https://example.com:8443/a_(b)",
    "https://ja.example.org/wiki/日本語",
    "https://example.com/?q=东京",
  );

  it("ends where its punctuation begins", () => {
    const ends = fc.constantFrom(
      "。",
      "，",
      "、",
      "；",
      "：",
      "！",
      "？",
      "）",
      "」",
      "』",
      "】",
      "》",
      "〉",
      "”",
      "…",
      "——",
      "　",
    );
    fc.assert(
      fc.property(letters, addresses, ends, letters, (before, address, end, after) => {
        const link = draw(`${before}${address}${end}${after}`).querySelector("a");
        expect(link?.textContent).toBe(address);
      }),
    );
  });

  it.each([
    ["请看https://example.com了解", "https://example.com"],
    ["详见https://example.com/了解", "https://example.com/"],
    ["详见https://example.com/docs了解更多", "https://example.com/docs"],
    ["https://example.com/a.htmlをご覧ください", "https://example.com/a.html"],
    ["https://example.com/a에서 확인", "https://example.com/a"],
    ["见 www.example.com。谢谢", "www.example.com"],
    ["（见https://example.com/a）和", "https://example.com/a"],
  ])("ends where the sentence continues: %s", (text, address) => {
    expect(draw(text).querySelector("a")?.textContent).toBe(address);
  });
});
