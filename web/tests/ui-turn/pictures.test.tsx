// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Shown, show, textOf } from "./shown.tsx";

const seen = new Map<Element, (near: boolean) => void>();

/** An observer that the test controls. */
class Observer {
  readonly #watched: Element[] = [];
  readonly #report: (seen: readonly { isIntersecting: boolean }[]) => void;
  constructor(report: (seen: readonly { isIntersecting: boolean }[]) => void) {
    this.#report = report;
  }
  observe(element: Element): void {
    this.#watched.push(element);
    seen.set(element, (isIntersecting) => this.#report([{ isIntersecting }]));
  }
  disconnect(): void {
    for (const element of this.#watched) seen.delete(element);
  }
}

beforeEach(() => vi.stubGlobal("IntersectionObserver", Observer));
afterEach(() => {
  seen.clear();
  vi.unstubAllGlobals();
});

async function bringIntoView(shown: Shown, near = true): Promise<void> {
  for (const look of [...seen.values()]) look(near);
  await shown.settle();
}

const names = (shown: Shown) => shown.all(".thread .thumb").map(textOf);
const drawn = (shown: Shown) => shown.all(".thread .thumb img").map((image) => image.getAttribute("alt"));

test("pictures of a message and of a turn are loaded while they are in view, each under its name", async () => {
  const shown = show("files-made");
  await shown.settle();
  expect(names(shown)).toEqual(["roof.png", "later.png", "chart.png", "lost.png"]);
  expect(drawn(shown)).toEqual([]);
  await bringIntoView(shown);
  expect(drawn(shown)).toEqual(["roof.png", "chart.png"]);
  expect(names(shown)).toEqual(["", "later.png", "", "lost.png"]);
  await bringIntoView(shown, false);
  expect(drawn(shown)).toEqual([]);
});

test("a picture opens in the preview, even if it failed to load; other files are next to it", async () => {
  const shown = show("files-made");
  await bringIntoView(shown);
  const [roof, , lost] = shown.all(".thread a.thumb");
  shown.press(roof as HTMLElement);
  shown.press(lost as HTMLElement);
  shown.press(shown.one(".thread ul[aria-label='3 new files'] .path"));
  expect(shown.called.filter(([act]) => act === "openFile")).toEqual([
    ["openFile", "fi:turn_1.user.attachments/roof.png"],
    ["openFile", "fi:turn_1.files/lost.png"],
    ["openFile", "fi:turn_1.files/totals.csv"],
  ]);
});

test("a picture within an answer is shown there only, with its description", async () => {
  const shown = show("files-in-answer");
  await bringIntoView(shown);
  expect(shown.all(".say .thumb img").map((image) => image.getAttribute("alt"))).toEqual(["The roof"]);
  expect(drawn(shown)).toEqual(["roof.png", "The roof"]);
});

test("a picture of a growing answer has its box, and is loaded once the answer is recorded", async () => {
  const shown = show("files-in-answer");
  const [turn] = shown.thread.turns;
  const [answer] = turn?.answers ?? [];
  if (!turn || !answer) throw new Error("the state has an answer");
  const with_ = (state: "streaming" | "recorded") => ({
    ...shown.thread,
    turns: [{ ...turn, answers: [{ ...answer, state }] }],
  });
  shown.draw({}, with_("streaming"));
  await bringIntoView(shown);
  expect(names(shown).at(-1)).toBe("The roof");
  const box = shown.one(".say .thumb");
  shown.draw({}, with_("recorded"));
  await bringIntoView(shown);
  expect(shown.one(".say .thumb")).toBe(box);
  expect(drawn(shown)).toContain("The roof");
});

test("files with the same name show their turns", () => {
  const rows = show("files-namesakes").all(".margin a.file");
  expect(
    rows.map((row) => [textOf(row.querySelector(".name") as Element), row.querySelector(".pill")?.textContent]),
  ).toEqual([
    ["other.md", undefined],
    ["report.md", "Turn 2"],
    ["report.md", "Turn 1"],
  ]);
});
