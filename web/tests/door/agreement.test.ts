import { describe, expect, it } from "vitest";
import { AI_SDK } from "../../packages/ai-sdk/mapping.ts";
import type { Effect, Frame } from "../../src/client/index.ts";
import { effectsOf, type Recording, reloadedOf } from "../thread/recordings.ts";
import { readMessage, readRun, runOf, shownByAgUi, shownByAiSdk, shownByPage, shownByResponses } from "./readers.ts";
import { eventsOf, readResponse } from "./response_reader.ts";
import { distinct, KILLED, render, STORIES, turnsOf } from "./stories.ts";

const LONG_MS = 600_000;

/** The status of a response by the reason of its turn's end, if it is not `completed`. */
const STATUS: Readonly<Record<string, string>> = { stop: "cancelled", token_limit: "incomplete" };

function asksIn(effect: Effect, turn: string): boolean {
  if (effect.kind !== "eventsApplied") return false;
  return effect.events.some(({ type, turn_id }) => type === "approval.requested" && turn_id === turn);
}

async function checkAgreement(frames: readonly Frame[]): Promise<void> {
  const [thread, effects] = [reloadedOf(frames), effectsOf(frames)];
  for (const turn of turnsOf(frames)) {
    const own = thread.turns.find(({ turnId }) => turnId === turn);
    if (!own) throw new Error(`no turn ${turn}`);
    const expected = shownByPage(thread, own);
    const run = runOf(effects, turn);
    expect(shownByAiSdk(await readMessage(render(AI_SDK, effects, turn)))).toEqual(expected);
    expect(shownByAgUi(await readRun(run), run.at(-1))).toEqual(expected);
    // A response ends where its turn waits for a person; another one follows the answer.
    if (effects.some((effect) => asksIn(effect, turn)) || !expected.end) continue;
    const ends = expected.end.startsWith("error") ? expected.end : (STATUS[expected.end] ?? "completed");
    expect(shownByResponses(readResponse(eventsOf(effects, turn)))).toEqual({ ...expected, end: ends });
  }
}

describe.each(STORIES)("$name", ({ frames }) => {
  it("is shown alike by clients of all doors and by the page", () => checkAgreement(frames), LONG_MS);
});

/** The story of which this is a recording. */
function storyOf({ name }: Recording): string {
  return name.replace(/, killed.*/, "");
}

describe.each([...new Set(KILLED.map(storyOf))])("%s", (story) => {
  const recordings = KILLED.filter((one) => storyOf(one) === story);

  it(
    "is shown alike by all doors and by the page after its worker was killed",
    async () => {
      for (const { frames } of recordings) await checkAgreement(frames);
    },
    LONG_MS,
  );

  it(
    "ends in the same state at both doors for each cut of a turn whose worker was killed",
    async () => {
      for (const { name, frames } of recordings) {
        for (const turn of turnsOf(frames)) {
          const message = await readMessage(render(AI_SDK, effectsOf(frames), turn));
          for (const [chunks, cut] of distinct(frames, (effects) => render(AI_SDK, effects, turn), true)) {
            expect(await readMessage(chunks), `${name}, ${cut}`).toEqual(message);
          }
          const run = await readRun(runOf(effectsOf(frames), turn));
          for (const [events, cut] of distinct(frames, (effects) => runOf(effects, turn), true)) {
            expect(await readRun(events), `${name}, ${cut}`).toEqual(run);
          }
        }
      }
    },
    LONG_MS,
  );
});
