// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { states } from "../gallery/fixtures.ts";
import { Shown, textOf } from "./shown.tsx";

const named = (element: Element) => Boolean(element.getAttribute("aria-label") || textOf(element));

test.each(Object.entries(states))("%s is drawn, and its parts have names", (_, state) => {
  const shown = new Shown(state);
  expect(shown.all("button, a").filter((element) => !named(element))).toEqual([]);
  expect(shown.all("[role=img]").filter((element) => !element.getAttribute("aria-label"))).toEqual([]);
  expect(shown.all("svg:not([role=img])").filter((element) => element.getAttribute("aria-hidden") !== "true")).toEqual(
    [],
  );
  const ids = shown.all("[id]").map((element) => element.id);
  expect(new Set(ids).size).toBe(ids.length);
});

test("a thread is a feed of articles that know their place", () => {
  const shown = new Shown(states.running as never);
  const articles = shown.all("[role=feed] > article");
  expect(articles.map((article) => article.getAttribute("aria-label"))).toEqual(["Turn 1", "Turn 2, running"]);
  expect(articles.map((article) => article.getAttribute("aria-posinset"))).toEqual(["1", "2"]);
  expect(articles.map((article) => article.getAttribute("aria-setsize"))).toEqual(["2", "2"]);
  expect(articles.map((article) => article.getAttribute("aria-busy"))).toEqual(["false", "true"]);
});

test("while older turns are not here, turns are called by their time and have no place", () => {
  const shown = new Shown(states["several-turns"] as never);
  const first = shown.one("article");
  expect(first.getAttribute("aria-label")).toBe("Turn of 09:05");
  expect(first.getAttribute("aria-posinset")).toBeNull();
  expect(first.getAttribute("aria-setsize")).toBe("-1");
  shown.press(shown.button("Show earlier turns"));
  expect(shown.told).toEqual([["loadEarlier"]]);
});

test("hostile text stays text, and hidden characters of names are shown", () => {
  const shown = new Shown(states.hostile as never);
  expect(shown.all("script, img")).toEqual([]);
  expect(shown.text).toContain("<script>alert(1)</script>");
  expect(textOf(shown.one(".card h3"))).toContain("U+202E");
  expect(textOf(shown.one(".card .path"))).toContain("U+202E");
});
