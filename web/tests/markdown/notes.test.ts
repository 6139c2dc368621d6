// @vitest-environment happy-dom
import { afterEach, describe, expect, it } from "vitest";
import { findForbidden } from "./allowed.ts";
import { contextOf, draw } from "./drawing.ts";

const TEXT =
  "Herons nest early[^1]: and late[^b].\n\nMore[^1].\n\n[^1]: In *March*.\n[^b]: In May,\nor June.\n\n    Seldom later.\n";

function shown(text: string): HTMLElement {
  const root = draw(text);
  document.body.append(root);
  return root;
}

afterEach(() => document.body.replaceChildren());

describe("a footnote", () => {
  it("links its sign and its explanation", () => {
    const root = shown(TEXT);
    const [sign, other] = Array.from(root.querySelectorAll<HTMLElement>("sup a"));
    const [note, second] = Array.from(root.querySelectorAll<HTMLElement>(".footnote"));
    expect(sign?.getAttribute("href")).toBe(`#${note?.id}`);
    expect(note?.textContent).toBe("1In March.↩");
    expect(Array.from(second?.querySelectorAll("p") ?? [], (one) => one.textContent)).toEqual([
      "In May,\nor June.",
      "Seldom later.",
    ]);
    other?.click();
    expect(document.activeElement).toBe(second);
    second?.querySelector("button")?.click();
    expect(document.activeElement).toBe(other);
    expect(findForbidden(root)).toEqual([]);
  });

  it("without an explanation is text, and so is one within a link", () => {
    const root = shown("A[^none] and [^1](https://example.com) `[^1]`.\n\n[^1]: One.");
    expect(root.querySelector("sup")).toBeNull();
    expect(root.textContent).toContain("A[^none] and ^1 [^1].");
  });

  it("is rendered once its later explanation has arrived", () => {
    const context = contextOf();
    const root = draw("See[^x].\n\nMore.\n\n", context, true);
    const [, untouched] = Array.from(root.querySelectorAll("p"));
    expect(root.querySelector("sup")).toBeNull();
    draw("See[^x].\n\nMore.\n\n[^x]: Words", context, true, root);
    expect(root.querySelector("sup")?.textContent).toBe("x");
    expect(root.querySelectorAll("p")[1]).toBe(untouched);
  });

  it("has a separate id in each text, and only for the first of a name", () => {
    const text = "A[^1].\n\n[^1]: One.\n\n[^1]: Two.\n\n> [^1]: Three.";
    const roots = [shown(text), shown(text)];
    const ids = roots.flatMap((root) => Array.from(root.querySelectorAll("[id]"), ({ id }) => id));
    expect(new Set(ids).size).toBe(2);
    expect(roots.map((root) => root.querySelectorAll(".footnote button").length)).toEqual([1, 1]);
    expect(roots.map((root) => root.querySelector("[id]")?.textContent)).toEqual(["1One.↩", "1One.↩"]);
  });

  it.each([
    "[^<script>alert(1)</script>]\n\n[^<script>alert(1)</script>]: x",
    '[^"onclick="x]\n\n[^"onclick="x]: <img src=x onerror=alert(1)>',
    "[^__proto__] [^constructor]\n\n[^__proto__]: a\n[^constructor]: b",
    "[^\u202e] [^\ud800]\n\n[^\u202e]: a\n\n[^\ud800]: b",
    "[^1]: [^1]: [^1]: [^1]: deep\n\n[^1]",
    "[^a]: ".repeat(2_000),
    "[^a]: x\n".repeat(5_000),
    `${"[^a]".repeat(4_000)}\n\n[^a]: x`,
    Array.from({ length: 3_000 }, (_, i) => `[^${i}]\n\n[^${i}]: x\n`).join("\n"),
  ])("of a hostile author has known elements only, and ends: %#", (text) => {
    expect(findForbidden(shown(text))).toEqual([]);
  });
});
