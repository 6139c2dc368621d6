// @vitest-environment happy-dom
import { beforeAll, describe, expect, it } from "vitest";
import { readMath } from "../../src/markdown/mathml.ts";
import { findForbidden } from "./allowed.ts";
import { contextOf, draw, loadFormulas } from "./drawing.ts";

beforeAll(loadFormulas);

describe("a formula", () => {
  it.each([
    ["Of $x_1$.", "inline"],
    ["Of \\(x_1\\).", "inline"],
    ["$$x_1$$", "block"],
    ["$$\nx_1\n$$", "block"],
    ["\\[x_1\\]", "block"],
    ["Of\n\\[\nx_1\n\\]\nthen.", "block"],
    ["Of $$x_1$$, then.", "block"],
    ["- Of\n  $$\n  x_1\n  $$", "block"],
    ["| a |\n|---|\n| $x_1$ |", "inline"],
    ["面积是$x_1$的。", "inline"],
    ["面积是\\(x_1\\)的。", "inline"],
    ["**其中$x_1$：**为", "inline"],
  ])("is rendered: %j", (text, display) => {
    const root = draw(text);
    const math = root.querySelector("math");
    expect(math?.querySelector("msub")?.textContent).toBe("x1");
    expect(math?.getAttribute("display") ?? "inline").toBe(display);
    expect(math?.namespaceURI).toBe("http://www.w3.org/1998/Math/MathML");
    expect(findForbidden(root)).toEqual([]);
  });

  it.each([
    "It costs $5 and $10.",
    "From $5-$10, or $5M–$10M.",
    "US$5, CA$6 and $7 (was $8).",
    "$5 for one, 10$ for two",
    "It costs $24,000 and you have $40,000; R$ 12,29 to R$ 15,83.",
    "$40 / A$ 60, or $40 (40$), $5/month or 10$.",
    "价格$5，折后4$的，共$100（约90$）",
    "In $HOME/bin or $PATH/x, `$a` and `b$`.",
    "An \\$x\\$ that is escaped.",
    "A \\(remark\\) and a \\[note\\], \\(to me\\) and \\[注\\].",
    "$$",
    "$ x $",
    "$x\n\ny$",
    "$x\ny$",
    "```\n$x$\n```",
  ])("is not found in: %j", (text) => {
    const root = draw(text);
    expect(root.querySelector("math, .formula")).toBeNull();
  });

  it.each(["O(n)", "f(x)", "n!", "a, b", "x - y", "p/q", "(a)"])(
    "within brackets may have no sign of one: %s",
    (tex) => {
      expect(draw(`It is \\(${tex}\\).`).querySelector("math")).not.toBeNull();
      expect(draw(`\\[${tex}\\]`).querySelector("math")).not.toBeNull();
    },
  );

  it("is text until its end has arrived", () => {
    const text = "The sum $$\\sum_{i=1}^n i$$ is known.";
    const end = text.lastIndexOf("$$") + 2;
    for (let cut = 1; cut <= text.length; cut += 1) {
      const root = draw(text.slice(0, cut), contextOf(), true);
      expect(root.querySelector("math") !== null, text.slice(0, cut)).toBe(cut >= end);
      if (cut < end) expect(root.textContent).toContain("The sum".slice(0, cut));
    }
  });

  it("keeps the emphasis around it, and has none within", () => {
    const root = draw("*of $a * b_1$ and* $c_2 * d$*e*");
    expect(Array.from(root.querySelectorAll("em"), (one) => one.querySelectorAll("math").length)).toEqual([1, 0]);
    expect(root.querySelectorAll("math")).toHaveLength(2);
  });

  it("that is invalid is shown as its source", () => {
    const root = draw("Of $\\unknown{x}$ and $\\frac{1}{$.\n\n$$\\begin{matrix}$$");
    expect(root.querySelector("math")).toBeNull();
    expect(Array.from(root.querySelectorAll("code"), (one) => one.textContent)).toEqual([
      "$\\unknown{x}$",
      "$\\frac{1}{$",
      "$$\\begin{matrix}$$",
    ]);
  });

  it("is aligned at its marks, and has the lines of its table", () => {
    const root = draw(
      "$$\\begin{aligned}a&=b\\\\&=c\\end{aligned}$$\n\n$$\\begin{array}{c|c}a&b\\\\\\hline c&d\\end{array}$$",
    );
    const classes = Array.from(root.querySelectorAll("mtd"), (cell) => cell.getAttribute("class"));
    expect(classes).toEqual(["rhs", "lhs", "rhs", "lhs", "under behind", "under", "behind", null]);
  });

  it.each([
    "\\href{javascript:alert(1)}{x}",
    "\\url{javascript:alert(1)}",
    "\\includegraphics{https://evil.example/x.png}",
    "\\class{over start}{x}\\id{page}{x}\\style{position:fixed}{x}\\data{a=b}{x}",
    "\\def\\a{\\a\\a}\\a",
    "\\newcommand{\\a}[1]{#1#1}\\a{\\a{x}}",
    "\\gdef\\frac{x}",
    "{".repeat(1_900),
    `${"\\frac{a}{".repeat(300)}b${"}".repeat(300)}`,
    `${"\\sqrt{".repeat(600)}x${"}".repeat(600)}`,
    "x^{y".repeat(900),
    "\\text{<script>alert(1)</script>}",
    "\\color{red}{x}\\colorbox{white}{\\color{white}{hidden}}",
    "\\kern{-999em}x\\rule{999em}{999em}\\raisebox{999em}{y}",
    "\\mathllap{over everything}\\rlap{x}",
    "__proto__ \\__proto__ \\constructor",
    "\u202e\u0000\ud800",
  ])("of a hostile author has known elements only, and ends: %j", (tex) => {
    const root = draw(`$$${tex}$$ and \\(x+${tex}\\)`);
    expect(findForbidden(root)).toEqual([]);
    expect(root.querySelector("a, img, script, [style], [id]")).toBeNull();
    for (const element of root.querySelectorAll("math *")) {
      for (const { value } of Array.from(element.attributes)) expect(value).not.toMatch(/\d{3,}(?:em|pt|px|ex)/);
    }
  });

  it("of more than 4,000 nodes is shown as its source", () => {
    expect(readMath("x".repeat(5_000), false)).toBeNull();
    expect(readMath("x".repeat(500), false)).not.toBeNull();
  });
});
