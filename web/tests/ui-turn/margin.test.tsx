// @vitest-environment happy-dom
import { act } from "preact/test-utils";
import { expect, test } from "vitest";
import { type Shown, show, textOf } from "./shown.tsx";

const part = (shown: Shown, name: string) => shown.one(`[data-part="${name}"]`);
const marks = (shown: Shown) => shown.all(".plan .mark").map((mark) => mark.getAttribute("aria-label"));

test("a plan shows its progress, and each step its state", () => {
  const shown = show("running");
  expect(textOf(part(shown, "plan"))).toContain("Plan1 of 3");
  expect(marks(shown).slice(0, 3)).toEqual(["done", "in progress", "to do"]);
});

test("of several plans the current one is open, and the others are one line each", () => {
  const shown = show("plan-several");
  expect(marks(shown).slice(0, 3)).toEqual(["done", "failed", "to do"]);
  expect(textOf(shown.one(".other-plans"))).toContain("1 other plan");
  expect(textOf(shown.one(".other-plan"))).toContain("Choose what the file says 3 of 3 · replaced");
});

test("a plan is shown while it is written, and its changed step is highlighted", () => {
  expect(textOf(show("plan-draft").one(".plan-draft"))).toContain("Compute the mon");
  expect(textOf(show("plan-changed").one(".plan .changed"))).toBe("Compute the monthly totals");
});

test("sources are numbered, with title and location", () => {
  expect(show("done").all(".margin .src").map(textOf)).toEqual([
    "1Prompt caching of language modelsexample.com/library/prompt-caching",
    "2Prompt injection: text that wants to be obeyedexample.com/library/prompt-injection",
  ]);
});

test("files are a row each, the newest first, a rewritten one with its count", () => {
  const shown = show("margin-files");
  const rows = () => shown.all(".margin a.file");
  expect(rows().length).toBe(8);
  expect(rows()[0]?.querySelector("[role=img]")?.getAttribute("aria-label")).toBe("written twice");
  shown.press(shown.button("All 12"));
  expect(rows().length).toBe(12);
  shown.press(rows()[1] as HTMLElement);
  expect(shown.called).toEqual([["openFile", "fi:turn_1.files/report-11.md"]]);
});

test("while older turns are not loaded, counts name the number of turns", () => {
  const shown = show("margin-files", { context: { earlier: "some" } });
  expect(textOf(part(shown, "files"))).toContain("Files12 in the last 2 turns");
  expect(shown.has("All 12 in the last 2 turns")).toBe(true);
});

test("declared files of a running program are grey", () => {
  expect(show("running").all(".margin li.file.soon").map(textOf)).toEqual(["totals.csvpromised", "totals.pngpromised"]);
});

test("the gauge shows its numbers, and the cached share of the request by round", () => {
  const shown = show("running");
  expect(shown.one(".gauge").getAttribute("aria-label")).toBe(
    "14,800 of 80,000 tokens. At 80,000, older text is shortened to 44,000.",
  );
  expect(textOf(part(shown, "context"))).toContain("82 % read from the cache in round 3.");
  expect(shown.all(".gauge .tick").length).toBe(1);
});

test("after a compaction the gauge shrinks to its estimate", () => {
  const shown = show("margin-compacted");
  expect(textOf(part(shown, "context"))).toContain("about 43k of 80k");
  expect(shown.all(".gauge .read")).toEqual([]);
});

test("a focused citation shows its source, and Escape closes it", () => {
  const shown = show("done");
  const chip = shown.one(".say .cite");
  act(() => chip.focus());
  expect(textOf(shown.one("#cite-card"))).toContain("Prompt caching of language models");
  expect(shown.one(".margin .src .cite").className).toContain("on");
  shown.key(chip, "Escape");
  expect(shown.all("#cite-card")).toEqual([]);
});

test("the citations of an answer are a numbered list in print", () => {
  expect(show("done").all(".footnotes li").map(textOf)[0]).toBe(
    "Prompt caching of language models, https://example.com/library/prompt-caching",
  );
});
