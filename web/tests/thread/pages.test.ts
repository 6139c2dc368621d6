import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EventFrame } from "../../src/client/index.ts";
import { emptyThread, foldEffects, prependPage, type Thread } from "../../src/thread/index.ts";
import { effectsOf, everything, isDurable, named, reloadedOf, threadOf } from "./recordings.ts";

/** Return the thread after loading the pages between these batches, the newest first. */
function backwards(frames: readonly EventFrame[], cuts: readonly number[]): Thread {
  const edges = [0, ...[...new Set(cuts)].sort((a, b) => a - b), frames.length];
  return edges
    .slice(0, -1)
    .reduceRight((thread, from, page) => prependPage(thread, frames.slice(from, edges[page + 1])), emptyThread("c-1"));
}

/** A batch may be sent twice; a page has it once. */
function isFirst(frame: EventFrame, place: number, frames: readonly EventFrame[]): boolean {
  return frames.findIndex((other) => other.n === frame.n && other.part === frame.part) === place;
}

function opens(frame: EventFrame): boolean {
  return frame.events.some((event) => event.type === "chat.start");
}

describe.each(everything)("$name", (recording) => {
  const frames = recording.frames.filter(isDurable).filter(isFirst);

  test("pages read backwards give the same thread as their events read forwards, wherever they are cut", () => {
    const whole = reloadedOf(frames);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: frames.length }), { maxLength: 6 }), (cuts) => {
        expect(backwards(frames, cuts)).toEqual(whole);
      }),
      { numRuns: 40 },
    );
  });

  test("every single turn can be a page", () => {
    const cuts = frames.flatMap((frame, place) => (opens(frame) ? [place] : []));
    expect(backwards(frames, cuts)).toEqual(reloadedOf(frames));
  });
});

test("a page leaves the existing turns unchanged", () => {
  const frames = everything.find((one) => one.name === "log 1")?.frames.filter(isDurable) ?? [];
  const cut = frames.findLastIndex(opens);
  const newest = prependPage(emptyThread("c-1"), frames.slice(cut));
  const all = prependPage(newest, frames.slice(0, cut));
  expect(all.turns.at(-1)).toBe(newest.turns.at(-1));
  expect(all.turns.length).toBeGreaterThan(newest.turns.length);
});

test("streaming text stays when the beginning of its turn is read", () => {
  const frames = named("a message in mid-answer");
  const heard = frames.slice(0, frames.findIndex((frame) => frame.frame === "delta" && frame.lane === "answer.0") + 2);
  const opening = heard
    .filter(isDurable)
    .filter((frame) => frame.n === 1)
    .slice(0, 1);
  const late = foldEffects(emptyThread("c-1"), effectsOf(heard, 1));
  expect(late.turns).toEqual([]);
  const whole = prependPage(late, opening);
  expect(whole).toEqual(threadOf(heard));
  expect(whole.turns[0]?.answers[0]?.text).not.toBe("");
});
