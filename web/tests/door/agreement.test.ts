import { describe, expect, it } from "vitest";
import { AI_SDK } from "../../packages/ai-sdk/mapping.ts";
import type { Frame } from "../../src/client/index.ts";
import { effectsOf, type Recording, reloadedOf } from "../thread/recordings.ts";
import { readMessage, readRun, runOf, shownByAgUi, shownByAiSdk, shownByPage } from "./readers.ts";
import { distinct, KILLED, render, STORIES, turnsOf } from "./stories.ts";

const LONG_MS = 600_000;

async function checkAgreement(frames: readonly Frame[]): Promise<void> {
  const [thread, effects] = [reloadedOf(frames), effectsOf(frames)];
  for (const turn of turnsOf(frames)) {
    const own = thread.turns.find(({ turnId }) => turnId === turn);
    if (!own) throw new Error(`no turn ${turn}`);
    const expected = shownByPage(thread, own);
    const run = runOf(effects, turn);
    expect(shownByAiSdk(await readMessage(render(AI_SDK, effects, turn)))).toEqual(expected);
    expect(shownByAgUi(await readRun(run), run.at(-1))).toEqual(expected);
  }
}

describe.each(STORIES)("$name", ({ frames }) => {
  it("is shown alike by clients of both doors and by the page", () => checkAgreement(frames), LONG_MS);
});

/** The story of which this is a recording. */
function storyOf({ name }: Recording): string {
  return name.replace(/, killed.*/, "");
}

describe.each([...new Set(KILLED.map(storyOf))])("%s", (story) => {
  const recordings = KILLED.filter((one) => storyOf(one) === story);

  it(
    "is shown alike by both doors and by the page after its worker was killed",
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
