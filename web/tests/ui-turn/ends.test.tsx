// @vitest-environment happy-dom
import { act } from "preact/test-utils";
import { afterEach, expect, test, vi } from "vitest";
import type { Turn } from "../../src/thread/thread.ts";
import { segments } from "../../src/ui/turn/receipt.tsx";
import { receiptLine, sayUsd } from "../../src/ui/turn/receipt_line.ts";
import { traceBars } from "../../src/ui/turn/trace.tsx";
import { at, done, receipt, thread } from "../gallery/build.ts";
import { Shown, show, textOf } from "./shown.tsx";

const pressed = (shown: Shown, name: string) => shown.button(name).getAttribute("aria-pressed");
const turnId = (shown: Shown) => shown.thread.turns.at(-1)?.turnId;

afterEach(() => vi.useRealTimers());

test("a streaming answer has a caret; a recorded one has none", () => {
  expect(show("answer-streaming").all(".say.growing .md.growing").length).toBe(1);
  expect(show("done").all(".growing")).toEqual([]);
});

test("a deferred answer is shown above, numbered, with the messages it could not read", () => {
  const shown = show("answer-deferred");
  const held = () => textOf(shown.one(".deferred"));
  expect(held()).toContain("Answer 1, written before the agent read: Give the totals in euros, too.");
  expect(held()).not.toContain("12,340");
  shown.press(shown.button("Answer 1"));
  expect(held()).toContain("12,340");
  expect(textOf(shown.all(".turn > .say").at(-1) as HTMLElement)).toContain("Answer 2");
});

test.each(["answer-replacing", "answer-replaced"])("%s: what a redirect cut off stays where it was read", (name) => {
  const shown = show(name);
  const cut = shown.one(".rounds .deferred");
  expect(textOf(cut)).toBe("…Replaced by your redirectThe totals are below: 12,340.");
  expect(cut.previousElementSibling?.getAttribute("data-round")).toBe("2");
  expect(cut.querySelector(".say.dimmed")).not.toBeNull();
  expect(shown.text).not.toMatch(/Answer \d|cut off here/);
});

test("a deferred answer has a number only next to another one", () => {
  const { thread } = show("answer-deferred");
  const [turn] = thread.turns.slice(-1) as [Turn];
  const alone = { ...turn, answers: turn.answers.slice(0, 1), outcome: { is: "running" } as const };
  const shown = show("answer-deferred", { thread: { ...thread, turns: [alone] } });
  expect(textOf(shown.one(".deferred"))).toContain("Answer, written before the agent read:");
});

test("a stopped answer says that it was interrupted, and the footer says stopped", () => {
  const shown = show("answer-cut");
  expect(textOf(shown.one(".say"))).toContain("cut off here");
  expect(textOf(shown.one(".say"))).toContain("No source has number 7.");
  expect(textOf(shown.one(".foot"))).toContain("stopped");
});

test("the value of a result is formatted JSON below the answer, as text and never markup", () => {
  const { thread } = show("done");
  const [turn] = thread.turns.slice(-1) as [Turn];
  const value = { eur: 12.5, of: "<img src=x> **lamp**" };
  const outcome = { is: "completed", reason: "complete", message: "", value } as const;
  const shown = show("done", { thread: { ...thread, turns: [{ ...turn, outcome }] } });
  const result = shown.one('[aria-label="Result"]');
  expect(result.textContent).toBe(JSON.stringify(value, null, 2));
  expect(result.querySelector("img, strong")).toBeNull();
  expect(show("done").all('[aria-label="Result"]')).toEqual([]);
});

test.each([
  ["end-steer", "after a redirect"],
  ["end-rounds", "rounds used up"],
])("the footer of %s says %s", (state, words) => {
  expect(textOf(show(state).one(".foot"))).toContain(words);
});

test("a failed turn shows why with its code, dims its streamed text, and can be sent again", () => {
  const shown = show("end-error");
  expect(textOf(shown.one(".broken"))).toContain("step_failed");
  expect(shown.one(".say").className).toContain("dimmed");
  shown.press(shown.button("Send again"));
  const prompt = shown.thread.turns[0]?.prompts[0];
  expect(shown.called).toEqual([["sendAgain", prompt]]);
  // A second click would send it twice.
  shown.draw({ discarded: new Set([prompt?.messageId ?? ""]) });
  expect(shown.has("Send again")).toBe(false);
});

test("a turn that waits for the provider can be sent again only afterwards", () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  let now = at(5);
  const shown = show("end-error-wait", { context: { now: () => now } });
  const again = shown.button("Send again");
  expect([again.disabled, textOf(again)]).toEqual([true, "Send again in 9.0 s"]);
  now = at(14);
  act(() => void vi.advanceTimersByTime(1000));
  expect([again.disabled, textOf(again)]).toEqual([false, "Send again"]);
});

test("a turn that would fail again does not offer a retry", () => {
  expect(show("end-error-refused").has("Send again")).toBe(false);
  const context = show("end-error-context");
  expect(context.has("Send again")).toBe(false);
  expect(context.text).toContain("Start a new conversation");
});

test("a followup fills the input on a click, and is sent with Shift", () => {
  const shown = show("done");
  shown.press(shown.button("Make a plan with three steps"));
  shown.press(shown.button("Write what you found"), { shiftKey: true });
  expect(shown.called).toEqual([
    ["fillComposer", "Make a plan with three steps"],
    ["send", "Write what you found to cache.md"],
  ]);
});

test("only the newest answer has followups", () => {
  expect(show("several-turns").all(".chips").length).toBe(1);
});

test("a receipt is one line, and opens to a row a round with totals", () => {
  const shown = show("citation-card");
  expect(shown.all(".receipt")).toEqual([]);
  shown.press(shown.button("3.2 s · 2 rounds · 9.5k token units"));
  const rows = shown.all(".receipt tr").map((row) => [...row.children].map(textOf));
  expect(rows).toEqual([
    ["#", "", "read", "written", "plain", "output"],
    ["1", "", "5,044", "716", "402", "168"],
    ["2", "", "5,760", "2,214", "431", "612"],
    ["", "9.5k token units · 74 % cached", "10,804", "2,930", "833", "780"],
  ]);
});

test("a receipt shows the time of the turn, part by part", () => {
  const parts = [
    { is: "model", ms: 2_000 },
    { is: "tools", ms: 3_100 },
    { is: "starting", ms: 9_400 },
    { is: "collecting", ms: 200 },
    { is: "preparing", ms: 800 },
    { is: "waiting", ms: 12_000 },
    { is: "between", ms: 500 },
  ] as const;
  const last = done("Hello", [], "Hello.", { receipt: receipt({ elapsedMs: 28_000, parts }) });
  const shown = new Shown({ thread: thread([last]), open: [`+${last.turnId}/receipt`] });
  expect(textOf(shown.one(".receipt-line"))).toContain("28.0 s");
  expect(textOf(shown.all(".receipt .key")[1] as HTMLElement)).toBe(
    "2.0 s in the model3.1 s in tools and programs9.4 s starting programs200 ms collecting their files" +
      "800 ms for title, summaries and hooks12.0 s waiting for the model's provider500 ms between steps",
  );
});

test("an opened receipt shows the cost of model calls by role, and the infrastructure of the turn", async () => {
  const shown = show("receipt-priced");
  expect(textOf(shown.one(".receipt-line"))).toContain("9.5k token units · $0.0291");
  const rows = () => shown.all(".costs tr").map((row) => [...row.children].map(textOf));
  const models = [
    ["Item", "", "Amount", "$"],
    ["agent claude-sonnet-5", "2 calls", "14.6k → 780", "$0.0284"],
    ["title claude-haiku-4-5", "1 call", "540 → 12", "$0.0007"],
  ];
  expect(rows()).toEqual([...models, ["Models", "", "", "$0.0291"]]);
  await shown.settle();
  expect(rows()).toEqual([
    ...models,
    ["Function time, GB-seconds", "", "3.2", "<$0.0001"],
    ["Table writes", "", "88", "$0.0001"],
    ["Total", "", "", "$0.0292"],
  ]);
  expect(shown.text).toContain("1 attempt failed before it could be counted");
  expect(shown.text).toContain("prices of 2026-11-20");
});

test("a receipt shows no dollars without a price, and says so for a partial price", async () => {
  expect(textOf(show("receipt-open").one(".receipt-line"))).not.toContain("$");
  expect(sayUsd(0.5, false)).toBe("at least $0.50");
  expect(sayUsd(0, false)).toBe("");
});

test("a free turn names its model instead of dollars", () => {
  expect(sayUsd(0, true)).toBe("free");
  expect(receiptLine(receipt({ usd: 0, priced: true, model: "scripted" }))).toMatch(/ token units · scripted$/);
});

test("a receipt shows the cache's losses, and which numbers are estimates", () => {
  expect(show("receipt-bust").text).toContain("2.1k of 8.1k read: a block was hidden");
  const estimated = show("receipt-estimated");
  expect(textOf(estimated.one(".receipt-line"))).toContain("about 9.5k token units");
  expect(textOf(estimated.one(".receipt"))).toContain("A call was cut off before the provider counted its tokens.");
});

test("a stacked bar has a segment a class with a gap of one between them, and none for zero", () => {
  expect(segments({ read: 50, written: 0, plain: 25, output: 10 }, 2)).toEqual([
    { name: "read", x: 0, width: 99 },
    { name: "plain", x: 100, width: 49 },
    { name: "out", x: 150, width: 19 },
  ]);
});

test("a bar of a trace is never too short to see, and stays in its frame", () => {
  expect(
    traceBars(
      [
        { is: "model", from: 0, to: 5_000 },
        { is: "tool", from: 9_999, to: 10_000 },
      ],
      10_000,
    ),
  ).toEqual([
    { is: "model", x: 0, width: 48 },
    { is: "tool", x: 94, width: 2 },
  ]);
});

test("a rating is sent at once, and asks for an optional line", async () => {
  const shown = show("done");
  shown.press(shown.button("Bad answer"));
  await shown.settle();
  expect(pressed(shown, "Bad answer")).toBe("true");
  expect(shown.text).toContain("Thanks for the feedback.");
  const field = shown.one(".why-line input");
  expect(field.getAttribute("maxlength")).toBe("1000");
  shown.type(field, " Too long. ");
  shown.press(shown.button("Send"));
  expect(shown.called).toEqual([
    ["rate", turnId(shown), "not_ok", "", expect.any(Function)],
    ["rate", turnId(shown), "not_ok", "Too long.", expect.any(Function)],
  ]);
});

test("the same rating again removes it; another one replaces it", async () => {
  const shown = show("feedback-up");
  expect([pressed(shown, "Good answer"), pressed(shown, "Bad answer")]).toEqual(["true", "false"]);
  shown.press(shown.button("Bad answer"));
  await shown.settle();
  expect([pressed(shown, "Good answer"), pressed(shown, "Bad answer")]).toEqual(["false", "true"]);
  shown.press(shown.button("Bad answer"));
  await shown.settle();
  expect(pressed(shown, "Bad answer")).toBe("false");
  expect(shown.text).toContain("Feedback removed.");
  expect(shown.called.at(-1)).toEqual(["rate", turnId(shown), null, "", expect.any(Function)]);
});

test("the current rating is shown with its text, and a machine's rating is labelled", () => {
  const foot = textOf(show("feedback-said").one(".foot"));
  expect(foot).toContain("Too long, and the second quote is beside the point.");
  expect(foot).toContain("rated by machine: Good answer");
});

test("a refused rating shows why; one that comes too early is stored", async () => {
  const refused = show("done");
  refused.refusals.push("turn_not_found");
  refused.press(refused.button("Good answer"));
  await refused.settle();
  expect(pressed(refused, "Good answer")).toBe("false");
  expect(refused.one(".feedback-said").className).toContain("bad");

  const early = show("done");
  early.press(early.button("Good answer"));
  const onKept = early.called[0]?.at(-1) as () => void;
  act(() => onKept());
  expect(early.text).toContain("Will be sent when the turn ends.");
  await early.settle();
  expect(early.text).toContain("Thanks for the feedback.");
});

test("a rating of another device is shown when it arrives", async () => {
  const shown = show("done");
  shown.press(shown.button("Good answer"));
  await shown.settle();
  const [turn] = shown.thread.turns;
  const feedback = [{ origin: "user", reaction: "not_ok", text: "" }] as const;
  shown.draw({}, { ...shown.thread, turns: [{ ...(turn as Turn), feedback }] });
  expect([pressed(shown, "Good answer"), pressed(shown, "Bad answer")]).toEqual(["false", "true"]);
});
