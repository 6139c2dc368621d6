import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Effect, Frame } from "../../src/client/index.ts";
import { emptyThread, foldEffects, type Thread } from "../../src/thread/index.ts";
import { conversations, effectsOf, named } from "./recordings.ts";

const PIECES = 5_000;
const PIECE = "8 chars.";

/** Return the fold of a conversation whose answer is about to stream, and the claim of its stream. */
function answering(): [Thread, number] {
  const [first, second] = [named("an answer"), named("an answer")];
  const ended = foldEffects(emptyThread("c-1"), effectsOf(first));
  const opening = effectsOf(second).filter((effect) => effect.kind === "eventsApplied")[0] as Effect;
  return [foldEffects(ended, [moved(opening, 100)]), 100];
}

/** Return the events of a batch as those of another turn. */
function moved(effect: Effect, n: number): Effect {
  if (effect.kind !== "eventsApplied") return effect;
  const events = effect.events.map((event) => ({
    ...event,
    turn_id: event.turn_id && "turn_2",
    data: "turn_id" in event.data ? { ...event.data, turn_id: "turn_2", prompts: [n] } : event.data,
  }));
  return { ...effect, n, events };
}

function piece(claim: number, off: number, text: string): Effect {
  return { kind: "textAppended", claim, lane: "answer.0", off, text };
}

describe("a delta of an answer", () => {
  test("leaves all other objects unchanged", () => {
    const [start, claim] = answering();
    const one = foldEffects(start, [piece(claim, 0, "One, ")]);
    const two = foldEffects(one, [piece(claim, 5, "two.")]);
    expect(two.turns.at(-1)?.answers).toEqual([
      { text: "One, two.", state: "streaming", iteration: 0, claim, lane: "answer.0" },
    ]);
    expect(two.turns[0]).toBe(one.turns[0]);
    const [before, after] = [one.turns.at(-1), two.turns.at(-1)];
    expect(after?.rounds).toBe(before?.rounds);
    expect(after?.messages).toBe(before?.messages);
    for (const name of ["loose", "plans", "files", "sources", "unknown", "early"] as const) {
      expect(two[name]).toBe(one[name]);
    }
  });

  test("of 40 KB in 5,000 pieces gives the whole text, and no past turn or round is created again", () => {
    const [start, claim] = answering();
    let thread = start;
    let rounds: unknown = null;
    for (let number = 0; number < PIECES; number += 1) {
      thread = foldEffects(thread, [piece(claim, number * PIECE.length, PIECE)]);
      rounds ??= thread.turns.at(-1)?.rounds;
      if (thread.turns.at(-1)?.rounds !== rounds || thread.turns[0] !== start.turns[0]) throw new Error("made again");
    }
    expect(thread.turns.at(-1)?.answers[0]?.text).toBe(PIECE.repeat(PIECES));
  });
});

describe.each(conversations)("$name", ({ frames }) => {
  const effects = effectsOf(frames);

  test("an effect leaves unrelated objects unchanged", () => {
    let before = emptyThread("c-1");
    for (const effect of effects) {
      const after = foldEffects(before, [effect]);
      for (const turn of before.turns.slice(0, -2)) expect(after.turns).toContain(turn);
      keepsEquals(before, after);
      before = after;
    }
  });

  test("effects give the same result one by one or together", () => {
    const whole = foldEffects(emptyThread("c-1"), effects);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: effects.length }), (cut) => {
        const first = foldEffects(emptyThread("c-1"), effects.slice(0, cut));
        expect(foldEffects(first, effects.slice(cut))).toEqual(whole);
      }),
      { numRuns: 10 },
    );
  });
});

function isLog(frame: Frame): boolean {
  return frame.frame === "delta" && frame.lane.endsWith(".log");
}

/** Assert that equal rounds and answers are the same objects. */
function keepsEquals(before: Thread, after: Thread): void {
  const olds = before.turns.flatMap((turn) => [...turn.rounds, ...turn.answers]);
  const news = after.turns.flatMap((turn) => [...turn.rounds, ...turn.answers]);
  const known = new Map(olds.map((one) => [JSON.stringify(one), one]));
  for (const one of news) {
    const old = known.get(JSON.stringify(one));
    if (old && old !== one) expect(one).toBe(old);
  }
}

describe("a void stream", () => {
  const claim = 100;
  const facts = { marker: "thinking", format: "markdown", artifact_name: "", title: "", sub_type: "" } as const;
  const lane = { ...facts, execution_id: "", language: "", replaces: "", began_at: "" };

  test("is dropped, and the round starts over", () => {
    const [start] = answering();
    const written = foldEffects(start, [
      { kind: "laneKnown", claim, lane: "thinking.0", facts: lane },
      { kind: "textAppended", claim, lane: "thinking.0", off: 0, text: "Hm." },
      { kind: "textAppended", claim, lane: "canvas.0", off: 0, text: "# A" },
      piece(claim, 0, "One"),
    ]);
    expect(written.turns.at(-1)?.rounds[0]).toMatchObject({ state: "deciding", thinking: { text: "Hm." } });
    const dropped = foldEffects(written, [{ kind: "streamReset", claim }]);
    expect(dropped).toEqual(start);
  });

  test("a lane that replaces another one takes its position", () => {
    const [start] = answering();
    const replaced = foldEffects(start, [
      piece(claim, 0, "Wron"),
      { kind: "laneEnded", claim, lane: "answer.0", chars: 4, aborted: "eof", at: "" },
      { kind: "laneKnown", claim, lane: "answer.0.r1", facts: { ...lane, marker: "answer", replaces: "answer.0" } },
      { kind: "textAppended", claim, lane: "answer.0.r1", off: 0, text: "Right." },
    ]);
    expect(replaced.turns.at(-1)?.answers.map((answer) => answer.text)).toEqual(["Right."]);
  });

  test("of a program's log only the end is kept, for any characters", () => {
    const frames = named("a program that is watched");
    const running = effectsOf(frames.slice(0, frames.findIndex(isLog) + 1));
    const log = running.find((effect) => effect.kind === "textAppended" && effect.lane.endsWith(".log"));
    if (log?.kind !== "textAppended") throw new Error("nothing was printed");
    const flood = "𝔸b".repeat(40_000);
    const more: Effect = { ...log, off: 8, text: flood };
    const thread = foldEffects(emptyThread("c-1"), [...running, more]);
    const seen = thread.turns[0]?.rounds[0]?.calls[0]?.program?.log;
    expect(seen?.text.length).toBeLessThanOrEqual(65_536);
    expect(flood.endsWith(seen?.text ?? "-")).toBe(true);
    expect(() => encodeURIComponent(seen?.text ?? "")).not.toThrow();
    expect((seen?.base ?? 0) + [...(seen?.text ?? "")].length).toBe(8 + [...flood].length);
  });

  test("a repeated batch changes nothing", () => {
    const effects = effectsOf(named("a search that is cited"));
    const thread = foldEffects(emptyThread("c-1"), effects);
    const again = effects.filter((effect) => effect.kind === "eventsApplied");
    expect(foldEffects(thread, again)).toBe(thread);
  });

  test("a conversation that replaced another one starts over", () => {
    const [start] = answering();
    const frame = {
      frame: "error",
      code: "resume_beyond_end",
      message: "",
      message_id: "",
      conversation: "c-1",
    } as const;
    const effect: Effect = { kind: "refused", frame: { ...frame, retry_after_s: 0, retryable: false } };
    expect(foldEffects(start, [effect])).toEqual(emptyThread("c-1"));
  });
});
