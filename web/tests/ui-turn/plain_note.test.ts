/** A note on one line has no citations, in either of the server's forms. */

import { expect, test } from "vitest";
import { plainNote } from "../../src/ui/turn/round.tsx";

test.each([
  ['found [One](https://one.example/ "S:1") here', "found here"],
  ["[see it \\[S:1\\]](https://x.example) now", "see it now"],
  ["a [link](https://x.example) and `code`", "a link and code"],
])("%s", (note, shown) => {
  expect(plainNote(note)).toBe(shown);
});
