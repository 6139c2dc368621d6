// @vitest-environment happy-dom
import { expect, test } from "vitest";
import type { Turn } from "../../src/thread/thread.ts";
import { type State, states } from "../gallery/fixtures.ts";
import { Shown, textOf } from "./shown.tsx";

const named = (element: Element) => Boolean(element.getAttribute("aria-label") || textOf(element));

test.each(Object.entries(states))("%s renders, and its parts have names", (_, state) => {
  const shown = new Shown(state);
  expect(shown.all("button, a").filter((element) => !named(element))).toEqual([]);
  expect(shown.all("[role=img]").filter((element) => !element.getAttribute("aria-label"))).toEqual([]);
  expect(shown.all("svg:not([role=img])").filter((element) => element.getAttribute("aria-hidden") !== "true")).toEqual(
    [],
  );
  const ids = shown.all("[id]").map((element) => element.id);
  expect(new Set(ids).size).toBe(ids.length);
});

test("a thread is a feed of articles with their positions", () => {
  const shown = new Shown(states.running as never);
  const articles = shown.all("[role=feed] article");
  expect(articles.map((article) => article.getAttribute("aria-label"))).toEqual(["Turn 1", "Turn 2, running"]);
  expect(articles.map((article) => article.getAttribute("aria-posinset"))).toEqual(["1", "2"]);
  expect(articles.map((article) => article.getAttribute("aria-setsize"))).toEqual(["2", "2"]);
  expect(articles.map((article) => article.getAttribute("aria-busy"))).toEqual(["false", "true"]);
});

test("while older turns are not loaded, turns have their numbers in the conversation, and missing ones are counted", () => {
  const shown = new Shown(states["several-turns"] as never);
  const first = shown.one("article");
  expect(first.getAttribute("aria-label")).toBe("Turn 232");
  expect(first.getAttribute("aria-posinset")).toBe("232");
  expect(first.getAttribute("aria-setsize")).toBe("235");
  expect(textOf(shown.one(".on-paper"))).toContain("231 earlier turns are not printed.");
  shown.press(shown.button("Show earlier turns (231)"));
  expect(shown.called).toEqual([["loadEarlier"]]);
});

test("a turn whose beginning is not loaded has its number in the conversation", () => {
  const { thread } = states["several-turns"] as State;
  const shown = new Shown(states["several-turns"] as never);
  const [first, ...rest] = thread.turns;
  shown.draw({}, { ...thread, turns: [{ ...(first as Turn), openedN: 0 }, ...rest] });
  expect(shown.all("article").map((one) => one.getAttribute("aria-posinset"))).toEqual(["231", "232", "233", "234"]);
});

test("the count below includes only turns since the user left the end, not older ones", () => {
  const { thread } = states["several-turns"] as State;
  const shown = new Shown(states["several-turns"] as never);
  const scroller = shown.one(".thread");
  Object.defineProperty(scroller, "scrollTop", { value: -500 });
  shown.scroll(scroller);
  expect(textOf(shown.one(".below"))).toBe("To the end");
  const older = thread.turns.map((turn) => ({ ...turn, turnId: `older-${turn.turnId}` }));
  shown.draw({}, { ...thread, turnsBefore: 227, turns: [...older, ...thread.turns] });
  expect(textOf(shown.one(".below"))).toBe("To the end");
  const last = thread.turns.at(-1) as Turn;
  const grown = { ...last, rounds: [...last.rounds, ...last.rounds.slice(-1)] };
  shown.draw({}, { ...thread, turnsBefore: 227, turns: [...older, ...thread.turns.slice(0, -1), grown] });
  expect(textOf(shown.one(".below"))).toBe("1 new below");
});

test("hostile text stays text, and hidden characters of names are shown", () => {
  const shown = new Shown(states.hostile as never);
  expect(shown.all("script, img")).toEqual([]);
  expect(shown.text).toContain("<script>alert(1)</script>");
  expect(textOf(shown.one(".card h3"))).toContain("U+202E");
  expect(textOf(shown.one(".card .path"))).toContain("U+202E");
});
