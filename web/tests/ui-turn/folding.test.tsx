// @vitest-environment happy-dom
import { act } from "preact/test-utils";
import { afterEach, expect, test, vi } from "vitest";
import type { Round, Turn } from "../../src/thread/thread.ts";
import { say } from "../../src/words/en/thread.ts";
import { at, call, done, grown, round, thread, turn } from "../gallery/build.ts";
import { Shown, textOf } from "./shown.tsx";

const isOpen = (shown: Shown, number: number) =>
  shown.one(`[data-round="${number}"] .line`).getAttribute("aria-expanded") === "true";
const line = (shown: Shown, number: number) => shown.one(`[data-round="${number}"] .line`);
const first = round(0, "I read the file.", { calls: [call("react.read")] });
const second = round(1, "I think about it.", { state: "thinking", decidedAt: null, endedAt: null });

afterEach(() => vi.useRealTimers());

test("a round is open while it is the last of a running turn, and folds when the next one begins", () => {
  const open = turn("Hello", [first]);
  const shown = new Shown({ thread: thread([open]) });
  expect(isOpen(shown, 1)).toBe(true);
  shown.draw({}, thread([{ ...open, rounds: [first, second] }]));
  expect([isOpen(shown, 1), isOpen(shown, 2)]).toEqual([false, true]);
});

test("a round that the user opened stays open", () => {
  const open = turn("Hello", [first, second]);
  const shown = new Shown({ thread: thread([open]) });
  shown.press(line(shown, 1));
  shown.draw({}, thread([{ ...open, rounds: [first, { ...second, state: "done" }, { ...second, iteration: 2 }] }]));
  expect([isOpen(shown, 1), isOpen(shown, 2), isOpen(shown, 3)]).toEqual([true, false, true]);
});

test("a live round that the user closed stays closed after its end", () => {
  const open = turn("Hello", [first]);
  const shown = new Shown({ thread: thread([open]) });
  shown.press(line(shown, 1));
  expect(isOpen(shown, 1)).toBe(false);
  shown.draw({}, thread([{ ...open, rounds: [first, second] }]));
  expect(isOpen(shown, 1)).toBe(false);
  shown.press(line(shown, 1));
  expect(isOpen(shown, 1)).toBe(true);
});

test("arrow keys open and close a round", () => {
  const shown = new Shown({ thread: thread([turn("Hello", [first])]) });
  shown.key(line(shown, 1), "ArrowLeft");
  expect(isOpen(shown, 1)).toBe(false);
  shown.key(line(shown, 1), "ArrowRight");
  expect(isOpen(shown, 1)).toBe(true);
});

test("arrow keys are mirrored in a right-to-left page", () => {
  const shown = new Shown({ thread: thread([turn("Hello", [first])]) });
  shown.root.style.direction = "rtl";
  shown.key(line(shown, 1), "ArrowRight");
  expect(isOpen(shown, 1)).toBe(false);
  shown.key(line(shown, 1), "ArrowLeft");
  expect(isOpen(shown, 1)).toBe(true);
});

test.each(["error", "unverified"] as const)("a call that is %s keeps its round open", (state) => {
  const broken = round(0, "I write it.", { calls: [call("react.write", { state, code: "bad_params" })] });
  const shown = new Shown({ thread: thread([turn("Hello", [broken, second])]) });
  expect(isOpen(shown, 1)).toBe(true);
});

test("turns added before and after others leave the elements of those unchanged", () => {
  const all = Array.from({ length: 66 }, (_, i) =>
    done(`Prompt ${i}`, [first], `Answer ${i}.`, { turnId: `turn_${i}` }),
  );
  const shown = new Shown({ thread: thread(all.slice(25, 60)) });
  const before = shown.all("article");
  shown.draw({}, thread(all));
  const after = shown.all("article");
  expect(after).toHaveLength(66);
  expect(after.slice(25, 60).every((article, i) => article === before[i])).toBe(true);
  expect(after.map((article) => article.id)).toEqual(all.map((turn) => `turn-${turn.turnId}`));
});

test("a folded turn keeps the buttons to rate and copy its answer, and its receipt", () => {
  const older = done("Hello", [first], "The answer.");
  const shown = new Shown({ thread: thread([older, turn("More", [second])]) });
  expect(shown.all(".fold").length).toBe(1);
  const names = shown.all(".foot button").map((button) => button.getAttribute("aria-label") ?? textOf(button));
  expect(names.slice(0, 3)).toEqual([say.good, say.bad, say.copy]);
  expect(names).toHaveLength(7);
});

test("a finished older turn folds its rounds to one line, and opens on a click", () => {
  const old = done("Hello", [first, round(1, "I answer.")], "Hello.");
  const newest = done("Again", [round(0, "I answer.")], "Again.");
  const shown = new Shown({ thread: thread([old, newest]) });
  const [fold] = shown.all(".fold button");
  expect(shown.all(".fold").length).toBe(1);
  expect(fold?.textContent).toContain("2 rounds, 1 tool");
  expect(shown.all(`[data-turn="${old.turnId}"]`)).toEqual([]);
  shown.press(fold as HTMLElement);
  expect(shown.all(`[data-turn="${old.turnId}"]`).length).toBe(2);
});

test("an address opens its turn, its round and its call", () => {
  const asked = call("react.hide", { state: "skipped", code: "steered" });
  const old = done("Hello", [round(0, "I hide it.", { calls: [asked] })], "Hello.");
  const shown = new Shown({
    thread: thread([old, done("Again", [round(0, "I answer.")], "Again.")]),
    context: { target: { turnId: old.turnId, iteration: 0, callId: asked.callId } },
  });
  expect(shown.one(`[data-call="${asked.callId}"]`).textContent).toContain("Not run:");
});

test("the newest turn folds when another begins, also if it was unread", () => {
  const unread = done("Hello", [first], "Hello.");
  const target = { turnId: unread.turnId, iteration: null, callId: "" };
  const shown = new Shown({ thread: thread([unread]), context: { target } });
  shown.draw({}, thread([unread, turn("Again", [second])]));
  expect(shown.one(".fold button").getAttribute("aria-expanded")).toBe("false");
});

test("an unread turn that is not the newest is open", () => {
  const unread = done("Hello", [first], "Hello.");
  const target = { turnId: unread.turnId, iteration: null, callId: "" };
  const shown = new Shown({ thread: thread([unread, turn("Again", [second])]), context: { target } });
  expect(shown.one(".fold button").getAttribute("aria-expanded")).toBe("true");
});

/** The same round, which counts its renders. */
function counted(plain: Round): { round: Round; drawn: () => number } {
  let times = 0;
  const notes = () => {
    times += 1;
    return plain.notes;
  };
  return { round: Object.defineProperty({ ...plain }, "notes", { get: notes, enumerable: true }), drawn: () => times };
}

const base = turn("Hello", [], { turnId: "turn_1" });

function growingTurn(rounds: readonly Round[], text: string): Turn {
  return { ...base, rounds: [...rounds, { ...second, thinking: grown(text) }] };
}

test("a delta renders only its own round and turn again", () => {
  const old = counted(first);
  const before = counted(first);
  const oldTurn = done("Before", [old.round], "Before.");
  const shown = new Shown({
    thread: thread([oldTurn, growingTurn([before.round], "I")]),
    open: [`+${oldTurn.turnId}`],
  });
  const drawn = [old.drawn(), before.drawn()];
  expect(drawn[1]).toBeGreaterThan(0);
  for (const text of ["I th", "I think", "I think of it"]) {
    shown.draw({}, thread([oldTurn, growingTurn([before.round], text)]));
  }
  expect(shown.text).toContain("I think of it");
  expect([old.drawn(), before.drawn()]).toEqual(drawn);
});

test("opening a round renders no other round again", () => {
  const still = counted(first);
  const shown = new Shown({ thread: thread([growingTurn([still.round, { ...first, iteration: 1 }], "I")]) });
  const drawn = still.drawn();
  shown.press(line(shown, 2));
  expect(isOpen(shown, 2)).toBe(true);
  expect(still.drawn()).toBe(drawn);
});

test("a clock ticks in running parts, and renders no ended round", () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const still = counted(first);
  let now = at(4);
  const running = round(1, "I compute.", {
    state: "acting",
    endedAt: null,
    startedAt: at(2),
    calls: [call("web_tools.web_fetch", { state: "running", startedAt: at(2.9), durationMs: null })],
  });
  const open = { ...turn("Hello", [still.round, running]), startedAt: at(0) };
  const shown = new Shown({ thread: thread([open]), context: { now: () => now } });
  const drawn = still.drawn();
  expect(shown.one(".card .num").textContent).toBe("1.0 s");
  now = at(4.9);
  act(() => void vi.advanceTimersByTime(1000));
  expect(shown.one(".card .num").textContent).toBe("2.0 s");
  expect(still.drawn()).toBe(drawn);
});
