// @vitest-environment happy-dom
import { h, render } from "preact";
import { describe, expect, it, vi } from "vitest";
import { paint } from "../../src/markdown/highlight.ts";
import { CodeBlock } from "../../src/markdown/index.ts";
import { eventually } from "../eventually.ts";
import { findForbidden } from "./allowed.ts";

function place(
  code: string,
  language: string,
  whole: boolean,
  root: HTMLElement = document.createElement("div"),
): HTMLElement {
  render(h(CodeBlock, { code, language, whole }), root);
  return root;
}

/** Colors come in a separate chunk. */
async function painted(root: HTMLElement): Promise<void> {
  await eventually(() => expect(root.querySelector("pre i, pre b, pre u")).not.toBeNull());
}

describe("a block of code", () => {
  it("has an element for each line, also for an empty one", () => {
    const lines = place("a\n\n  b", "", true).querySelectorAll("pre > span");
    expect(Array.from(lines, (line) => line.textContent)).toEqual(["a", " ", "  b"]);
  });

  it("is plain while it grows, and highlighted once it is complete", async () => {
    const root = place("import os", "python", false);
    expect(root.querySelector("i")).toBeNull();
    place("import os\nx = 'a' # b", "python", true, root);
    await painted(root);
    expect(root.querySelector("i")?.textContent).toBe("import");
    expect(root.querySelector("b")?.textContent).toBe("'a'");
    expect(root.querySelector("u")?.textContent).toBe("# b");
    expect(findForbidden(root)).toEqual([]);
  });

  it("keeps its existing lines while it grows", () => {
    const root = place("one\ntwo\nthr", "", false);
    const first = root.querySelector("pre > span");
    place("one\ntwo\nthree\nfour", "", false, root);
    expect(root.querySelector("pre > span")).toBe(first);
    expect(Array.from(root.querySelectorAll("pre > span"), (line) => line.textContent)).toEqual([
      "one",
      "two",
      "three",
      "four",
    ]);
  });

  it("shows reordering characters, and copies the original", async () => {
    const write = vi.spyOn(navigator.clipboard, "writeText").mockResolvedValue();
    const root = place("if (a\u202e) {}", "", true);
    expect(root.querySelector("pre")?.textContent).toBe("if (a‹U+202E›) {}");
    root.querySelector("button")?.click();
    expect(write).toHaveBeenCalledWith("if (a\u202e) {}");
    await eventually(() => expect(root.querySelector("button")?.textContent).toBe("Copied"));
    render(null, root);
  });

  it("of half a megabyte is a single text without lines", () => {
    const root = place("let a = 1;\n".repeat(50_000), "js", true);
    expect(root.querySelectorAll("pre > span")).toHaveLength(0);
    expect(root.querySelector("pre")?.textContent).toHaveLength(550_000);
  });

  it("keeps its text in any language, and has no colors if they would take long", () => {
    const code = '<a href="x">&amp;</a>\n<script>let a = `b$c`;</script>\n/* d */ SELECT 1; {"k": [1]} # x\n- y: z\n';
    for (const language of ["python", "json", "js", "ts", "bash", "sql", "html", "css", "yaml"]) {
      const lines = paint(code, language);
      expect(lines?.map((line) => line.map((piece) => piece.text).join("")).join("\n")).toBe(code);
    }
    expect(paint("let a;\n".repeat(50) + "a".repeat(5_000), "js")).toBeNull();
    expect(paint(`a${"\n".repeat(5_000)}b`, "js")).toBeNull();
    expect(paint(code, "a language that is not known")).toBeNull();
    expect(paint(code, "__proto__")).toBeNull();
  });
});
