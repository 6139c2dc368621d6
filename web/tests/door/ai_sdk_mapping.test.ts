import { type UIMessage, uiMessageChunkSchema } from "ai";
import { describe, expect, it } from "vitest";
import { AI_SDK } from "../../packages/ai-sdk/mapping.ts";
import { effectsOf } from "../thread/recordings.ts";
import { readMessage } from "./readers.ts";
import { distinct, render, STORIES, turnsOf } from "./stories.ts";

function parts(message: UIMessage | null, type: string): unknown[] {
  return message?.parts.filter((part) => part.type === type) ?? [];
}

const schema = uiMessageChunkSchema();

describe.each(STORIES)("$name", ({ frames }) => {
  const turns = turnsOf(frames);

  it("has only chunks that the published schema accepts", async () => {
    for (const turn of turns) {
      for (const chunk of render(AI_SDK, effectsOf(frames), turn)) {
        expect(await schema.validate?.(chunk), JSON.stringify(chunk)).toMatchObject({ success: true });
      }
    }
  });

  it("ends in the same message for each cut", async () => {
    for (const turn of turns) {
      const whole = await readMessage(render(AI_SDK, effectsOf(frames), turn));
      for (const [values, cut] of distinct(frames, (effects) => render(AI_SDK, effects, turn))) {
        expect(await readMessage(values), cut).toEqual(whole);
      }
    }
  }, 600_000);

  it("shows the recorded answer", async () => {
    const ends = frames.flatMap((frame) => (frame.frame === "events" ? frame.events : []));
    for (const turn of turns) {
      const end = ends.find((event) => event.type === "chat.complete" && event.turn_id === turn);
      if (!end?.data.answer) continue;
      const [message] = await readMessage(render(AI_SDK, effectsOf(frames), turn));
      const texts = parts(message, "text") as { text: string }[];
      expect(texts.at(-1)?.text).toBe(end.data.answer);
    }
  });
});
