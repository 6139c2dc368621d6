// @vitest-environment happy-dom
import { act } from "preact/test-utils";
import { expect, test, vi } from "vitest";
import type { Turn } from "../../src/thread/thread.ts";
import { at, call, done, type message, round, thread, turn } from "../gallery/build.ts";
import { Shown, show, textOf } from "./shown.tsx";

/** Return the line of the last round. */
const lastLine = (shown: Shown) => textOf(shown.all(".round[data-round] .head").at(-1) as HTMLElement);
const lastNode = (shown: Shown) => shown.all(".round[data-round]").at(-1)?.className;

test.each([
  ["round-thinking", "thinking"],
  ["round-deciding", "deciding"],
  ["round-refused", "refused"],
  ["round-cut", "cut off"],
  ["round-waits-for-provider", "model busy"],
  ["turn-in-line", "Waiting: 3rd in line"],
  ["approval-asked", "needs your approval"],
  ["draft-growing", "writing totals.md"],
  ["running", "1 call"],
])("%s says %s in its line", (state, words) => {
  expect(lastLine(show(state))).toContain(words);
});

test("a round shows its note, its tool and its duration", () => {
  const shown = show("done");
  expect(shown.all(".round .head").map(textOf)).toEqual([
    "I search for prompt caching.web_tools.web_search6 ms",
    "Everything asked for is settled; I answer.answer1.9 s",
  ]);
  expect(shown.all(".round > .clock").map(textOf)).toEqual(["0.0 s", "1.3 s"]);
});

test("only current activity is live, and an ended turn has nothing live", () => {
  expect(lastNode(show("running"))).toContain("live");
  expect(lastNode(show("round-refused"))).not.toContain("live");
  expect(show("done").all(".live")).toEqual([]);
});

test("an opened round shows the durations of the model and the tools, and links to the timeline", () => {
  const shown = show("opened");
  const foot = shown.one(".round-foot");
  expect(textOf(foot)).toContain("1.2 s in the model, 6 ms in tools · 14 rounds left");
  shown.press(foot.querySelector("a") as HTMLElement);
  expect(shown.called).toEqual([["openTimeline", shown.thread.turns[0]?.turnId, 0]]);
});

test("a user without access to the inspector sees no link to the timeline", () => {
  const shown = show("opened", { context: { inspect: false } });
  expect(shown.all(".round-foot a")).toEqual([]);
});

test("thinking shows its end, and all of it on a click", () => {
  const shown = show("round-thinking");
  expect(shown.all(".think .last").length).toBe(1);
  shown.press(shown.button("Show all thinking"));
  expect(shown.all(".think .last").length).toBe(0);
});

test("a busy model is shown with the time and the number of the next attempt", () => {
  expect(show("round-waits-for-provider").text).toContain("The model is busy, retrying in 12 s (attempt 2 of 4)");
  expect(show("round-waits-for-provider", { now: at(50) }).text).toContain("retrying now (attempt 2 of 4)");
});

test("a restart is shown with its number, unless it happened at once and only once", () => {
  expect(show("round-restarted").text).toContain("Restarted (2nd attempt)");
  const soon = round(0, "", { state: "thinking", items: [{ is: "restarted", attempt: 1, at: at(2) }] });
  expect(new Shown({ thread: thread([turn("Hello", [soon])]) }).text).not.toContain("Restarted");
});

test("rejected actions, remarks and hooks are shown in the opened round, and as a dot in the folded one", () => {
  const shown = show("round-remarks");
  expect(shown.text).toContain("Action 2 was not run: The round already had the maximum number of actions.");
  expect(shown.text).toContain("audit.recorded");
  const folded = round(0, "I go on.", { items: [{ is: "notice", code: "final_answer_with_notes" }] });
  const quiet = new Shown({ thread: thread([done("Hello", [folded], "Hello.")]) });
  expect(quiet.one(".dot").getAttribute("aria-label")).toBe("with a note");
});

test("a compaction is a line on the rail with its sizes; one without effect is shown only in its round", () => {
  expect(show("compaction-running").text).toContain("Summarizing earlier turns…");
  expect(textOf(show("compaction-done").one(".round.quiet"))).toContain("81k → 43k tokens, 4 turns in a summary");
  const nothing = show("compaction-nothing");
  expect(nothing.all(".round.quiet")).toEqual([]);
  expect(nothing.text).toContain("Nothing was summarized");
});

test("messages of a running turn show their state", () => {
  const pill = (state: string) => textOf(show(state).all(".round:not([data-round]) .pill").at(-1) as HTMLElement);
  expect(pill("message-adding")).toBe("sending");
  expect(pill("message-waits")).toBe("waits for round 4");
  expect(pill("message-read")).toBe("read in round 3");
  expect(pill("message-interrupting")).toBe("interrupting…");
  expect(pill("message-heeded")).toBe("interrupted the tools; an answer within 2 rounds");
});

test("a message waits for the next round, or for the one after it if that has decided without it", () => {
  const shown = show("message-waits");
  const [, open] = shown.thread.turns as [Turn, Turn];
  const draw = (rounds: Turn["rounds"]) => shown.draw({}, { ...shown.thread, turns: [{ ...open, rounds }] });
  const thinks = round(3, "", { state: "thinking", decidedAt: null, endedAt: null });
  draw([...open.rounds, thinks]);
  expect(shown.text).toContain("waits for round 4");
  draw([...open.rounds, { ...thinks, decidedAt: at(20) }]);
  expect(shown.text).toContain("waits for round 5");
});

test("a steer that a later message overrode shows that the turn continues", () => {
  const shown = show("message-heeded");
  const [first, open] = shown.thread.turns;
  shown.draw({}, { ...shown.thread, turns: [first as Turn, { ...(open as Turn), ending: null }] });
  expect(shown.text).toContain("interrupted the tools; continues");
});

test("a message that was handed back can be sent now or discarded, and then disappears", () => {
  const shown = show("message-handed-back");
  const handed = shown.thread.turns[0]?.messages[0];
  expect(shown.text).toContain("Not used: the answer was already complete.");
  shown.press(shown.button("Send now"));
  shown.press(shown.button("Discard"));
  expect(shown.called).toEqual([
    ["sendAgain", handed],
    ["discard", handed?.messageId],
  ]);
  shown.draw({ discarded: new Set([handed?.messageId ?? ""]) });
  expect(shown.has("Send now")).toBe(false);
});

test("a message that opens a turn is shown before the log has it, and once", () => {
  const shown = show("message-sending");
  const sent = shown.context.outbox[0] as ReturnType<typeof message>;
  expect(textOf(shown.all("article").at(-1) as HTMLElement)).toContain("And what does it cost?sending");
  // The server has accepted it; its events have not arrived yet.
  shown.draw({ outbox: shown.context.outbox.map((message) => ({ ...message, n: 9 })) });
  expect(textOf(shown.all("article").at(-1) as HTMLElement)).not.toContain("sending");
  const next = turn("", [], { prompts: [{ ...sent, n: 99 }] });
  shown.draw({}, { ...shown.thread, turns: [...shown.thread.turns, next] });
  expect(shown.text.split("And what does it cost?").length).toBe(2);
  expect(shown.text).not.toContain("sending");
});

test("a refused message shows why, and can be sent again", () => {
  expect(show("message-trying").text).toContain("not sent yet, retrying…");
  const shown = show("message-refused");
  expect(textOf(shown.one(".trouble"))).toContain("Another message has this id. message_id_taken");
  shown.press(shown.button("Send again"));
  expect(shown.called).toEqual([["sendAgain", shown.context.outbox[0]]]);
});

test("a prompt shows its sender, its kind and its files", () => {
  const shown = show("message-kinds");
  expect(textOf(shown.one(".prompts"))).toContain("formby booking");
  expect(textOf(shown.one(".attached"))).toContain("offer.pdf180 KB");
});

test("parallel calls count once in the time of their round", () => {
  const beside = [call("a", { startedAt: at(1), durationMs: 400 }), call("b", { startedAt: at(1.1), durationMs: 400 })];
  const shown = new Shown({ thread: thread([done("Both", [round(0, "I do both.", { calls: beside })], "Done.")]) });
  expect(textOf(shown.one(".round .time"))).toBe("500 ms");
});

test("streamed text fades out when its round restarts, and is then removed", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const streamed = round(0, "", { state: "thinking", thinking: { text: "I read.", whole: false, aborted: "" } });
  const asked = turn("Hello", [streamed]);
  const shown = new Shown({ thread: thread([asked]) });
  const items = [{ is: "restarted", attempt: 1, at: at(2) }] as const;
  const again = { ...streamed, thinking: { text: "", whole: false, aborted: "" }, items };
  shown.draw({}, { ...shown.thread, turns: [{ ...asked, rounds: [again] }] });
  expect(textOf(shown.one(".inside.leaving"))).toContain("I read.");
  act(() => void vi.advanceTimersByTime(120));
  expect(shown.all(".leaving")).toEqual([]);
  expect(shown.text).not.toContain("I read.");
  vi.useRealTimers();
});
