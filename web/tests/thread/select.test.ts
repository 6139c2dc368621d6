import { describe, expect, test } from "vitest";
import { type Frame, parseFrame } from "../../src/client/index.ts";
import {
  contextOf,
  currentPlan,
  openTurn,
  planDraft,
  type Round,
  readoutOf,
  sourcesOf,
  type Thread,
  type Turn,
  tokenStack,
  traceOf,
  traceScale,
} from "../../src/thread/index.ts";
import { sayReadout } from "../../src/words/index.ts";
import { named, synthetic, threadOf } from "./recordings.ts";

/** A queued turn, third and then the next, until it begins nine seconds after it was sent. */
const inLine = [
  eventsOf(1, ["chat.start", { turn_id: "turn_1", prompts: [] }], ["turn.queued", { place: 3 }]),
  { frame: "pong", conversation: "c-1", n: 1, place: 1 },
  eventsOf(2, ["turn.begun", { waited_ms: 9000 }]),
].map((one) => parseFrame(one) as Frame);

function eventsOf(n: number, ...given: readonly (readonly [type: string, data: object])[]): object {
  const ts = `2026-11-21T10:00:0${n === 1 ? 0 : 9}Z`;
  const events = given.map(([type, data]) => ({ type, route: "chat_step", ts, turn_id: "turn_1", data }));
  return { frame: "events", conversation: "c-1", n, prev: n - 1, events };
}

function readouts(name: string): readonly string[] {
  const frames = named(name);
  const said = frames.map((_, place) => sayReadout(readoutOf(threadOf(frames.slice(0, place + 1))), 0));
  return said.filter((text, place) => text !== said[place - 1]);
}

describe("the readout", () => {
  test("follows a turn from its beginning to its end", () => {
    expect(readouts("a plan and two files")).toEqual([
      "round 1 · thinking",
      "round 1 · deciding",
      "round 1 · react.plan",
      "round 2 · thinking",
      "round 2 · writing outputs/a.md",
      "round 2 · deciding",
      "round 2 · react.write",
      "round 3 · thinking",
      "round 3 · writing outputs/b.md",
      "round 3 · deciding",
      "round 3 · react.write",
      "round 4 · thinking",
      "round 4 · deciding",
      "round 4 · closing",
      "idle",
    ]);
  });

  test.each([
    ["a program", "round 1 · program"],
    ["a steer", "finishing, 2 rounds left"],
    ["a stop", "stopping"],
    ["a call that is approved", "round 1 · waiting for your approval"],
  ])("of %s says %s", (name, text) => {
    expect(readouts(name)).toContain(text);
  });

  test("shows the last reported queue position of a turn until it begins", () => {
    const said = [1, 2, 3].map((count) => sayReadout(readoutOf(threadOf(inLine.slice(0, count))), 0));
    expect(said).toEqual(["Waiting: 3rd in line", "Waiting: next in line", "round 1 · thinking"]);
    const turn = openTurn(threadOf(inLine)) as Turn;
    expect((turn.rounds[0] as Round).startedAt - turn.startedAt).toBe(9_000);
  });

  test("shows when a busy provider is retried, and the number of the attempt", () => {
    const readout = readoutOf(threadOf(synthetic.slice(0, 6)));
    const until = Date.parse("2026-11-21T10:05:00Z");
    expect(readout).toEqual({ is: "provider", round: 2, until, attempt: 2, attempts: 4 });
    expect([12_000, 11_001, 0, -500].map((left) => sayReadout(readout, until - left))).toEqual([
      "round 2 · model busy, retrying in 12 s (attempt 2 of 4)",
      "round 2 · model busy, retrying in 12 s (attempt 2 of 4)",
      "round 2 · model busy, retrying now (attempt 2 of 4)",
      "round 2 · model busy, retrying now (attempt 2 of 4)",
    ]);
  });
});

describe("the margin", () => {
  test("shows the current plan, and its draft", () => {
    const frames = named("a plan and two files");
    const drafts = frames.map((_, place) => planDraft(threadOf(frames.slice(0, place + 1)))?.text ?? "");
    expect(drafts.some((text) => text.includes("□ look"))).toBe(true);
    expect(drafts.at(-1)).toBe("");
    expect(currentPlan(threadOf(frames))?.steps).toHaveLength(2);
    expect(currentPlan(threadOf(named("an answer")))).toBeUndefined();
  });

  test("has the sources that a turn found, by number, and the same list for the same state", () => {
    const thread = threadOf(named("a search that is cited"));
    const turn = thread.turns[0] as Turn;
    const sources = sourcesOf(thread, turn);
    expect(sources.map((source) => source.sid)).toEqual([...sources.keys()].map((place) => place + 1));
    expect(sourcesOf(thread, turn)).toBe(sources);
  });

  test("shows the budget that the newest request used, by cache class", () => {
    const usage = threadOf(synthetic).turns[0]?.rounds[0]?.usage;
    expect(usage && tokenStack(usage)).toEqual({ read: 2_100, written: 6_000, plain: 300, output: 90 });
    const context = contextOf(threadOf(named("an answer")));
    expect(context?.max).toBe(80_000);
    expect(context?.used).toBe(context?.stack?.plain);
    expect(contextOf(threadOf([]))).toBeNull();
  });
});

describe("a trace", () => {
  const thread: Thread = threadOf(synthetic);
  const turn = thread.turns[0] as Turn;

  test("has the model, then each call for its duration", () => {
    const [round] = turn.rounds;
    expect(round && traceOf(turn, round, 0)).toEqual([
      { is: "model", from: 2_000, to: 2_000 },
      { is: "tool", from: 2_858, to: 3_000 },
      { is: "tool", from: 4_000, to: 4_000 },
    ]);
    expect(round && traceOf(turn, round, 0)).toBe(round && traceOf(turn, round, 9));
  });

  test("shows running parts up to now", () => {
    const running = threadOf(synthetic.slice(0, 4));
    const open = openTurn(running) as Turn;
    const round = open.rounds.at(-1);
    const segments = round ? traceOf(open, round, open.startedAt + 9_000) : [];
    expect(segments.at(-1)).toEqual({ is: "now", from: 3_000, to: 9_000 });
  });

  test.each([
    [4_999, 5_000],
    [5_001, 15_000],
    [59_000, 60_000],
    [60_001, 300_000],
    [300_001, 600_000],
  ])("of %d ms has a scale of %d ms", (elapsed, scale) => {
    expect(traceScale({ ...turn, endedAt: null }, turn.startedAt + elapsed)).toBe(scale);
  });
});
