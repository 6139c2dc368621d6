// @vitest-environment happy-dom
import fc from "fast-check";
import { render } from "preact";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { CITE_CARD_ID } from "../../src/markdown/index.ts";
import type { Source } from "../../src/thread/thread.ts";
import { contextOf, draw, loadFormulas } from "./drawing.ts";
import { orderlyTexts } from "./texts.ts";

/** Elements, attributes in any order, and text; the ids of footnotes without the number of their text. */
function sketch(node: Node): unknown {
  if (!(node instanceof Element)) return node.textContent;
  const attributes = Object.fromEntries(
    Array.from(node.attributes, ({ name, value }) => [name, value.replace(/note-\d+-/, "note-")]),
  );
  return [node.localName, attributes, Array.from(node.childNodes, sketch)];
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

beforeAll(loadFormulas);

describe("a growing text", () => {
  it("gives the same elements as the whole text", () => {
    fc.assert(
      fc.property(orderlyTexts, fc.array(fc.nat(), { maxLength: 6 }), (text, marks) => {
        const context = contextOf();
        const root = document.createElement("div");
        for (const cut of marks.map((mark) => mark % (text.length + 1)).sort((a, b) => a - b)) {
          draw(text.slice(0, cut), context, true, root);
        }
        expect(sketch(draw(text, context, false, root))).toEqual(sketch(draw(text, context)));
        render(null, root);
      }),
      { numRuns: 120 },
    );
  });

  it("keeps its settled elements", () => {
    const context = contextOf();
    const root = draw("# One\n\nTwo *words*\n\nThr", context, true);
    const [heading, paragraph] = Array.from(root.querySelectorAll("h3, p"));
    draw("# One\n\nTwo *words*\n\nThree\n\nFour", context, true, root);
    expect(root.querySelector("h3")).toBe(heading);
    expect(root.querySelector("p")).toBe(paragraph);
    expect(root.querySelectorAll("p")).toHaveLength(3);
  });

  it("has a class while it may grow", () => {
    expect(draw("x", contextOf(), true).firstElementChild?.className).toBe("md growing");
    expect(draw("x").firstElementChild?.className).toBe("md");
  });
});

describe("a link", () => {
  it("opens elsewhere, and shows its target", () => {
    const link = draw("[words](https://user:pass@example.com/a?b=c)").querySelector("a");
    expect(link?.href).toBe("https://example.com/a?b=c");
    expect(link?.title).toBe("example.com");
    expect(link?.target).toBe("_blank");
  });

  it("shows letters of another script in its host", () => {
    expect(draw("[x](https://аррӏе.com/)").querySelector("a")?.title).toBe("xn--80ak6aa92e.com");
  });

  it("without a target is its words and its address", () => {
    const root = draw("[words](javascript:alert)");
    expect(root.querySelector("a")).toBeNull();
    expect(root.textContent).toBe("words javascript:alert");
  });

  it("replaces a picture of another site", () => {
    const root = draw("![a *picture*](https://example.com/p.png)");
    expect(root.querySelector("img")).toBeNull();
    expect(root.querySelector("a")?.textContent).toBe("a picture");
    expect(draw("![](https://example.com/p.png)").querySelector("a")?.textContent).toBe("picture");
  });

  it("to a picture of the conversation is that picture, if the page renders pictures", () => {
    const drawPicture = vi.fn((path: string, alt: string) => `<${path} ${alt}>`);
    const of = (text: string) => draw(text, contextOf({ drawPicture }));
    expect(of("![a *chart*](fi:turn_1.outputs/my%20chart.png)").textContent).toBe(
      "<fi:turn_1.outputs/my chart.png a chart>",
    );
    expect(of("![](fi:turn_1.outputs/a.png)").textContent).toBe("<fi:turn_1.outputs/a.png a.png>");
    drawPicture.mockClear();
    const others =
      "![x](https://example.com/p.png) ![x](fi:turn_1.outputs/a.pdf) [![x](fi:turn_1.outputs/a.png)](https://example.com)";
    expect(of(others).querySelectorAll("img")).toHaveLength(0);
    expect(of("![x](fi:conv_other.turn_1.outputs/a.png)").querySelector("a")).toBeNull();
    expect(drawPicture).not.toHaveBeenCalled();
    expect(draw("![x](fi:turn_1.outputs/a.png)").querySelector("a")?.textContent).toBe("x");
  });

  it("to a path of the conversation opens it in the page", () => {
    const onOpenPath = vi.fn();
    const root = draw("[report](fi:turn_1.outputs/my%20report.md)", contextOf({ onOpenPath }));
    const link = root.querySelector("a");
    expect(link?.getAttribute("href")).toBe("/c/chat-1/f/fi%3Aturn_1.outputs/my%20report.md");
    expect(link?.title).toBe("fi:turn_1.outputs/my report.md");
    link?.click();
    expect(onOpenPath).toHaveBeenCalledWith("fi:turn_1.outputs/my report.md");
  });

  it("to a path of another conversation leads nowhere", () => {
    expect(draw("[x](fi:conv_other.turn_1.outputs/a.md)").querySelector("a")).toBeNull();
    expect(draw("[x](fi:conv_chat-1.turn_1.outputs/a.md)").querySelector("a")).not.toBeNull();
  });

  it("is also code that names a file, except within a link and for other kinds of paths", () => {
    const path = "fi:turn_1.outputs/plan.md";
    const onOpenPath = vi.fn();
    const root = draw(
      `\`${path}\` [\`${path}\`](https://a.example) \`tc:turn_1.tc_1.result\``,
      contextOf({ onOpenPath }),
    );
    const [named, foreign] = Array.from(root.querySelectorAll("a"));
    expect(root.querySelectorAll("a")).toHaveLength(2);
    expect(foreign?.getAttribute("href")).toBe("https://a.example/");
    named?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    expect(onOpenPath).toHaveBeenCalledWith(path);
  });
});

describe("a citation", () => {
  const source: Source = { sid: 7, title: "Title\nof it", url: "https://example.com", path: "", snippet: "" };

  it("is a chip with its number and its source's name", () => {
    const context = contextOf({ resolveSource: (sid) => (sid === 7 ? source : undefined), numberOf: () => 2 });
    const chip = draw('[long title](https://example.com/a "S:7")', context).querySelector("a.cite");
    expect(chip?.textContent).toBe("2");
    expect(chip?.getAttribute("aria-label")).toBe("Source 2: Title of it");
    expect(chip?.getAttribute("aria-describedby")).toBe(CITE_CARD_ID);
    expect(chip?.getAttribute("href")).toBe("https://example.com/a");
  });

  it("reports the pointer and the focus, and their end", () => {
    const onCite = vi.fn();
    const chip = draw('[t](https://example.com "S:7")', contextOf({ onCite })).querySelector("a");
    for (const name of ["mouseenter", "mouseleave", "focus", "blur"]) chip?.dispatchEvent(new Event(name));
    expect(onCite.mock.calls).toEqual([
      [7, chip],
      [7, null],
      [7, chip],
      [7, null],
    ]);
  });

  it("of a file leads to its path", () => {
    const onOpenPath = vi.fn();
    const chip = draw('[t](ks:docs/a.md "S:3")', contextOf({ onOpenPath })).querySelector<HTMLElement>(".cite");
    expect(chip?.textContent).toBe("3");
    chip?.click();
    expect(onOpenPath).toHaveBeenCalledWith("ks:docs/a.md");
  });

  it("without a safe address is a chip that leads nowhere", () => {
    const root = draw('[t](javascript:alert "S:3")');
    expect(root.querySelector("a")).toBeNull();
    expect(root.querySelector("button.cite")?.textContent).toBe("3");
  });

  it("requires its exact title", () => {
    expect(
      draw('[t](https://example.com "S:0") [t](https://example.com "about S:1")').querySelector(".cite"),
    ).toBeNull();
  });
});

describe("a right-to-left text", () => {
  it("sets the direction of each list and quote by its first letter", () => {
    const root = draw("- API הוא ממשק\n- שני\n\n1. אחד\n\n> ציטוט\n\n* one\n  - שני\n\n> quote\n\n- 1\n- ٢٠ عشرون");
    const sides = Array.from(root.querySelectorAll("ul, ol, blockquote"), (one) => one.getAttribute("dir"));
    expect(sides).toEqual(["ltr", "rtl", "rtl", "ltr", "rtl", "ltr", "rtl"]);
    expect(root.querySelector("li")?.getAttribute("dir")).toBeNull();
  });
});

describe("a table", () => {
  const table = (rows: number) =>
    `| a | b |\n|:-:|--:|\n${Array.from({ length: rows }, (_, i) => `| row ${i} | \`${i}\` |`).join("\n")}\n`;

  it("of 200 rows is shown in full", () => {
    const root = draw(table(200));
    expect(root.querySelectorAll("tbody tr")).toHaveLength(200);
    expect(root.querySelector(".cut")).toBeNull();
  });

  it("of more rows is shown cut, and in full on request", async () => {
    const root = draw(`${table(1_001)}\nAfter it.`);
    expect(root.querySelectorAll("tbody tr")).toHaveLength(200);
    const button = root.querySelector<HTMLButtonElement>(".cut > button");
    expect(button?.textContent).toBe("Show all 1,001 rows");
    button?.click();
    await settled();
    expect(root.querySelectorAll("tbody tr")).toHaveLength(1_001);
    expect(root.querySelectorAll("table")).toHaveLength(1);
    expect(root.querySelector("tbody:last-child tr:last-child")?.textContent).toBe("row 10001000");
    expect(root.querySelector("p")?.textContent).toBe("After it.");
  });

  it("that grows beyond 200 rows keeps its rows", () => {
    const context = contextOf();
    const root = draw(table(150), context, true);
    draw(table(230), context, true, root);
    const row = root.querySelector("tbody tr");
    draw(table(700), context, true, root);
    expect(root.querySelector("tbody tr")).toBe(row);
    expect(root.querySelector(".cut > button")?.textContent).toBe("Show all 700 rows");
  });
});
