// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { at, call, draft, round, thread, turn } from "../gallery/build.ts";
import { Shown, show, textOf } from "./shown.tsx";

const card = (shown: Shown, label: string) => shown.one(`section[aria-label="${label}"]`);

test.each([
  ["react.read", "done", "12 ms"],
  ["react.write", "failed", "The parameters don't fit the tool. bad_params"],
  ["mail.send", "may have happened", "unverified"],
  ["react.hide", "not run", "not run"],
  ["web_tools.web_fetch", "running", "5.0 s"],
  ["react.pull", "to run", "to run"],
])("the card of %s has the mark %s and says %s", (tool, mark, words) => {
  const shown = show("tools");
  expect(card(shown, tool).querySelector(".mark")?.getAttribute("aria-label")).toBe(mark);
  expect(textOf(card(shown, tool))).toContain(words);
});

test.each(["skipped", "unverified"] as const)("a call that is %s has no duration", (state) => {
  const ended = call("mail.send", { state, code: "steered", durationMs: 0 });
  const shown = new Shown({ thread: thread([turn("Hello", [round(0, "I send it.", { calls: [ended] })])]) });
  expect(textOf(shown.one(".call .num"))).toBe("");
});

test("parameters are words; an omitted one is shown by its size", () => {
  const shown = show("tools");
  expect(textOf(card(shown, "react.write"))).toContain("content112 characters");
  expect(textOf(card(shown, "react.read"))).toContain("filter3 entries");
});

test("a path is a link that opens the preview, or a new tab on request", () => {
  const shown = show("tools");
  const link = card(shown, "react.read").querySelector("a") as HTMLAnchorElement;
  expect(link.getAttribute("href")).toBe("/c/chat-gallery/f/fi%3Aturn_1.files/plan.md");
  shown.press(link, { ctrlKey: true });
  expect(shown.called).toEqual([]);
  shown.press(link);
  expect(shown.called).toEqual([["openFile", "fi:turn_1.files/plan.md"]]);
});

test("a search shows its query and the number of results, each with number, title, host and beginning", () => {
  const found = textOf(card(show("tools-results"), "web_tools.web_search"));
  expect(found).toContain("2 results for prompt caching");
  expect(found).toContain("Source 1Prompt caching of language modelsexample.com…keep the computed state");
});

test("a fetch shows which page failed, and why", () => {
  expect(textOf(card(show("tools-results"), "web_tools.web_fetch"))).toContain("It did not finish in time.");
});

test("an event of a tool is one line that opens its data", () => {
  const [line] = card(show("tools-results"), "crm.lookup").querySelectorAll(".events details");
  expect(textOf(line?.querySelector("summary") as Element)).toBe("crm.match id, name, orders");
  expect(textOf(line as Element)).toContain("name Ada Lovelace");
});

test.each([
  ["program-writing", "writing"],
  ["program-ready", "about to run"],
  ["program-starting", "starting"],
  ["program-running", "running"],
  ["program-collecting", "collecting files"],
  ["program-error", "failed"],
])("%s says %s", (state, words) => {
  expect(textOf(show(state).one(".program .pill"))).toBe(words);
});

test("a running program shows its maximum duration, a finished one its actual duration", () => {
  expect(textOf(show("running").one(".program header .num"))).toBe("4.0 s of 600 s");
  expect(textOf(show("program-done").one(".program header .num"))).toBe("15.7 s");
});

test.each([
  ["program-starting", ["Starting for", "6.0 s"]],
  ["program-running", ["Started in", "5.0 s", "Running for", "1.0 s"]],
  ["program-collecting", ["Started in", "1.0 s", "Ran for", "3.0 s", "Collecting for", "2.0 s"]],
  ["program-done", ["Started in", "9.4 s", "Ran for", "6.1 s", "Collected in", "200 ms"]],
])("a program shows its state and the duration of each state: %s", (state, times) => {
  const rows = show(state, { now: at(9) })
    .all(".program dl > *")
    .map(textOf);
  expect(rows.filter((row, place) => row !== "Written in" && rows[place - 1] !== "Written in")).toEqual(times);
});

test("arrow keys switch the tabs of a program, and one panel is shown", () => {
  const shown = show("program-done");
  const tabs = () => shown.all("[role=tab]");
  expect(tabs().map(textOf)).toEqual(["Program11", "Log3", "Files2/3"]);
  shown.key(tabs()[0] as Element, "ArrowRight");
  expect(tabs().map((tab) => tab.getAttribute("aria-selected"))).toEqual(["false", "true", "false"]);
  expect(tabs().map((tab) => tab.tabIndex)).toEqual([-1, 0, -1]);
  expect(document.activeElement).toBe(tabs()[1]);
  expect(textOf(shown.one("[role=tabpanel]"))).toContain("184 rows");
  shown.key(tabs()[1] as Element, "End");
  expect(shown.one("[role=tabpanel]").getAttribute("aria-labelledby")).toBe(tabs()[2]?.id);
});

test("declared files are grey until they are written, and internal ones are marked", () => {
  const shown = show("program-files");
  const rows = shown.all(".files-tab li").map((row) => [row.className, textOf(row)]);
  expect(rows).toEqual([
    ["", "totals.csvA line a month."],
    ["", "totals.pngOne bar a month."],
    ["soon", "cache.jsoninternal"],
  ]);
  expect(textOf(shown.one(".files-tab"))).toContain("notes.txt");
});

test("a log shows that its beginning is not stored, and its full length", () => {
  const log = textOf(show("program-log").one("[role=tabpanel]"));
  expect(log).toContain("81,204 earlier characters not kept");
  expect(log).toContain("143 KB in total");
});

test("parameters are shown in their original order and in full", () => {
  const rows = Array.from({ length: 120 }, (_, at) => `row ${at}`);
  const sends = call("mail.send", { params: { to: "a\u202eb", rows } });
  const shown = new Shown({ thread: thread([turn("Hello", [round(0, "I send it.", { calls: [sends] })])]) });
  const params = () => textOf(shown.one(".params"));
  expect(params()).toContain("a‹U+202E›b");
  expect(params()).not.toContain("row 119");
  shown.press(shown.button("Show 20 more entries"));
  expect(params()).toContain("row 119");
});

test("a canvas file can be opened next to the thread while it is written", () => {
  const growing = { text: "# Tot", whole: false, aborted: "" };
  const writing = round(0, "I write it.", { drafts: [draft("outputs/totals.md", growing)], state: "deciding" });
  const shown = new Shown({ thread: thread([turn("Hello", [writing])]) });
  const link = shown.one(".draft-card a");
  expect(link.getAttribute("aria-label")).toBe("Preview: outputs/totals.md");
  shown.press(link);
  const path = `fi:${shown.thread.turns[0]?.turnId}.outputs/totals.md`;
  expect(shown.called).toEqual([["openFile", path]]);
});

test("a text is open while it is written; an interrupted one shows why and is dimmed", () => {
  const growing = show("draft-growing");
  expect(textOf(card(growing, "totals.md"))).toContain("writing");
  expect(textOf(card(growing, "plan.md"))).toBe("plan.md63 characters");
  const cut = card(show("draft-cut"), "totals.md");
  expect(cut.className).toContain("aborted");
  expect(textOf(cut)).toContain("cut offIt was interrupted.");
});

function running(progress: { done: number; total: number; text: string }): Element {
  const live = { lane: "report.0.0", progress, events: [] };
  const one = call("acme.work", { state: "running", live });
  const shown = new Shown({ thread: thread([turn("Hello", [round(0, "I work.", { calls: [one] })])]) });
  return shown.one(".call");
}

test("a running call shows its progress as a bar that a screen reader can read", () => {
  const bar = running({ done: 3, total: 4, text: "writing" }).querySelector("progress") as HTMLProgressElement;
  expect([bar.getAttribute("value"), bar.getAttribute("max")]).toEqual(["3", "4"]);
  expect(bar.getAttribute("aria-label")).toBe("Progress of acme.work");
  expect(bar.getAttribute("aria-valuetext")).toBe("3 of 4, writing");
  expect(bar.getAttribute("role") ?? "progressbar").toBe("progressbar");
});

test("a progress without a total has a bar without a share", () => {
  const card = running({ done: 1200, total: 0, text: "" });
  expect(card.querySelector("progress")?.hasAttribute("value")).toBe(false);
  expect(textOf(card.querySelector(".progress") as Element)).toBe("1,200");
});
