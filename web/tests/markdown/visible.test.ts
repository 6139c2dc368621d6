import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeReferences } from "../../src/markdown/entities.ts";
import { parsePath, visible, visibleOrder } from "../../src/markdown/index.ts";

describe("an untrusted name", () => {
  it("shows characters that reorder it or have no width", () => {
    expect(visible("photo\u202egpj.exe")).toBe("photo‹U+202E›gpj.exe");
    expect(visible("a\u200bb\ufeffc\u2066d")).toBe("a‹U+200B›b‹U+FEFF›c‹U+2066›d");
    expect(visible("a\0b\x1b[31m")).toBe("a‹U+0000›b‹U+001B›[31m");
    expect(visible("x\u{e0041}\ud800")).toBe("x‹U+E0041›‹U+D800›");
  });

  it("is shown on one line", () => {
    expect(visible("one\r\n\ttwo\u2028three   four")).toBe("one two three four");
  });

  it("is cut", () => {
    expect(visible("a".repeat(500))).toBe(`${"a".repeat(200)}…`);
    expect(visible("😀".repeat(10), 3)).toBe("😀😀😀…");
    expect(visible("a".repeat(1_000_000), 10)).toBe("aaaaaaaaaa…");
  });

  it("of ordinary letters is unchanged, in any script", () => {
    for (const name of ["Bericht für März.pdf", "תמונה.png", "年次報告書.docx", "übersicht (2).csv"])
      expect(visible(name)).toBe(name);
  });

  it("never holds a hidden character", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(visible(text)).not.toMatch(/[\p{Cc}\p{Cs}\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u);
      }),
    );
  });
});

describe("untrusted code", () => {
  it("shows only the characters that reorder it", () => {
    expect(visibleOrder("a\u202eb\t\u200dc\n")).toBe("a‹U+202E›b\t\u200dc\n");
  });
});

describe("character references", () => {
  it("are decoded once", () => {
    expect(decodeReferences("&amp;lt; &lt;b&gt; &#38;&#x27; &hellip; &unknown; &__proto__; &constructor;")).toBe(
      "&lt; <b> &' … &unknown; &__proto__; &constructor;",
    );
    expect(decodeReferences("&#0;&#xD800;&#1114112;")).toBe("\ufffd\ufffd\ufffd");
  });
});

describe("a logical path", () => {
  const page = readFileSync(new URL("../../../docs/reference/paths.md", import.meta.url), "utf8");
  const examples = /## Examples\n\n```\n(.*?)```/s.exec(page)?.[1]?.trim().split("\n") ?? [];

  it("matches every example of the reference", () => {
    expect(examples.length).toBeGreaterThan(20);
    for (const example of examples) {
      expect(parsePath(example, "c-2")).toBe(example.replace("conv_c-2.", ""));
      expect(parsePath(`conv:${example}`, "c-2")).not.toBe("");
    }
  });

  it("belongs to this conversation", () => {
    expect(parsePath("ar:conv_c-2.turn_1.user.prompt", "c-1")).toBe("");
    expect(parsePath("so:conv_c-2.sources_pool", "c-2")).toBe("");
  });

  it.each([
    "",
    "report.md",
    "fi:",
    "fi:turn_1.outputs/",
    "fi:turn_1.outputs/../a",
    "fi:turn_1.outputs/a//b",
    "fi:turn_1.outputs/a\u202eb",
    "fi:turn_1.outputs/a\\b",
    "fi:turn_1.outputs/a:b",
    "fi:turn_1.user.attachments/a/b",
    "fi:turn_1.secret/a",
    "ar:turn_1.no.such.name",
    "tc:turn_1.tc_1.other",
    "__proto__:x",
    "javascript:alert(1)",
    "https://example.com",
    `ks:${"a".repeat(3_000)}`,
  ])("is not %j", (text) => {
    expect(parsePath(text, "c-1")).toBe("");
  });
});
