import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Round, Thread, Turn } from "../../src/thread/index.ts";
import { conversations, reloadedOf, threadOf } from "./recordings.ts";

/**
 * Return a thread without the data that only lanes have: running text, and the text of files while they were written.
 */
function recorded(thread: Thread): Thread {
  return { ...thread, stream: null, unknown: new Map(), turns: thread.turns.map(recordedTurn) };
}

function recordedTurn(turn: Turn): Turn {
  const failed = turn.outcome.is === "error";
  const answers = turn.answers.filter((one) => one.state !== "streaming" && !(failed && one.lane));
  return { ...turn, answers, rounds: turn.rounds.map(recordedRound) };
}

function recordedRound(round: Round): Round {
  const items = round.items.filter((item) => item.is !== "draft");
  const kept: Round = { ...round, items, drafts: [], planDraft: null, calls: round.calls.map(recordedCall) };
  if (round.decidedAt !== null) return kept;
  const nothing = { text: "", whole: round.endedAt !== null, aborted: "" };
  return {
    ...kept,
    claim: 0,
    state: round.endedAt === null ? "thinking" : "done",
    thinking: nothing,
    notes: nothing,
    calls: [],
    items: items.filter((item) => item.is !== "call"),
  };
}

function recordedCall(streamed: Round["calls"][number]): Round["calls"][number] {
  const call = { ...streamed, live: null };
  const { program } = call;
  if (program?.state !== "running" && program?.state !== "collecting") return call;
  const log = { base: 0, text: "", whole: false, bytes: null };
  return { ...call, program: { ...program, state: "starting", ranAt: null, endedAt: null, log } };
}

describe.each(conversations)("$name", ({ frames }) => {
  test("a reload shows the same thread, except for parts that only streamed", () => {
    expect(recorded(threadOf(frames))).toEqual(recorded(reloadedOf(frames)));
  });

  test("a reload at any moment shows the same thread", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: frames.length }), (end) => {
        const heard = frames.slice(0, end);
        expect(recorded(threadOf(heard))).toEqual(recorded(reloadedOf(heard)));
      }),
      { numRuns: 30 },
    );
  });

  test("an ended turn has no growing round or answer", () => {
    for (const turn of threadOf(frames).turns) {
      if (turn.outcome.is === "running") continue;
      expect(turn.answers.map((answer) => answer.state)).not.toContain("streaming");
      for (const round of turn.rounds) {
        expect(round.state).toBe("done");
        expect([round.thinking.whole, round.notes.whole]).toEqual([true, true]);
        expect(round.drafts.every((draft) => draft.text.whole)).toBe(true);
      }
    }
  });
});
