import { describe, expect, test } from "vitest";
import channels from "../../../docs/reference/channels.md?raw";
import errors from "../../../docs/reference/errors.md?raw";
import execution from "../../../docs/reference/execution.md?raw";
import liveEvents from "../../../docs/reference/live-events.md?raw";
import messages from "../../../docs/reference/messages.md?raw";
import { callCodes, codes } from "../../src/words/en/codes.ts";
import { wordsOf, wordsOfCall } from "../../src/words/index.ts";

/** Sections about codes that no user of the chat sees, only engineers who deploy or write a bundle. */
const UNSEEN = ["Doors", "Imports", "Bundle errors", "Command line errors", "Internal errors"];

/** Codes of the page itself, which are in no table of the server's. */
const OWN = ["api_unreachable", "closed", "form_refused", "format_newer", "gateway", "no_answer"];

const HEADS = ["code", "reason"];

/** Return the codes of every table of a page whose first columns hold some. */
function codesOf(page: string): readonly string[] {
  const found: string[] = [];
  let part = "";
  let column = -1;
  for (const line of page.split("\n")) {
    if (line.startsWith("#")) part = line.replace(/^#+ /, "");
    if (!line.startsWith("|")) {
      column = -1;
      continue;
    }
    const cells = line.split("|").slice(1, -1);
    const head = cells.findIndex((cell) => HEADS.includes(cell.trim()));
    if (column < 0) {
      column = head;
      if (column < 0) column = Number.POSITIVE_INFINITY;
    } else if (!UNSEEN.includes(part)) {
      found.push(...[...(cells[column] ?? "").matchAll(/`([a-z0-9_.]+)`/g)].map((match) => match[1] as string));
    }
  }
  return found;
}

const pages = { channels, errors, execution, liveEvents, messages };
const all = new Set(Object.values(pages).flatMap(codesOf));

describe("the sentences of codes", () => {
  test("the tables are read", () => {
    expect(all.size).toBeGreaterThan(300);
    for (const code of ["busy", "malware", "turn_closed", "nonzero_exit", "bad_params", "archive_empty"]) {
      expect(all).toContain(code);
    }
  });

  test("every code of a table has a sentence", () => {
    expect([...all].filter((code) => !Object.hasOwn(codes, code))).toEqual([]);
  });

  test("every sentence belongs to a code of a table", () => {
    const unknown = Object.keys(codes).filter((code) => !all.has(code) && !OWN.includes(code));
    expect(unknown).toEqual([]);
    expect(Object.keys(callCodes).filter((code) => !all.has(code))).toEqual([]);
  });

  test("each begins with a capital and ends like a sentence", () => {
    for (const sentence of [...Object.values(codes), ...Object.values(callCodes)]) {
      expect(sentence).toMatch(/^[A-Z].*[.…]$/);
    }
  });

  test("a code of a later release is shown by the server's message, or by its name", () => {
    expect(wordsOf("brand_new", "The moon is full.")).toBe("The moon is full.");
    expect(wordsOf("brand_new")).toBe("Something went wrong (brand_new).");
    expect(wordsOf("toString")).toBe("Something went wrong (toString).");
  });

  test("a result code of a call describes the call's outcome", () => {
    expect(wordsOfCall("not_found")).not.toBe(wordsOf("not_found"));
    expect(wordsOfCall("nonzero_exit")).toBe(wordsOf("nonzero_exit"));
  });
});
