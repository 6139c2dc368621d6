import { readUIMessageStream, type UIMessage, type UIMessageChunk, uiMessageChunkSchema } from "ai";
import { describe, expect, it } from "vitest";
import { AI_SDK } from "../../packages/ai-sdk/mapping.ts";
import { effectsOf } from "../thread/recordings.ts";
import { distinct, render, STORIES, turnsOf } from "./stories.ts";

/** Return the message that a page has after these chunks, and the errors that it reports. */
async function read(chunks: readonly UIMessageChunk[]): Promise<[message: UIMessage | null, errors: string[]]> {
  const errors: string[] = [];
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let message: UIMessage | null = null;
  const onError = (error: unknown) => errors.push(String((error as Error).message));
  for await (const next of readUIMessageStream({ stream, onError })) message = next;
  return [message, errors];
}

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
      const whole = await read(render(AI_SDK, effectsOf(frames), turn));
      for (const [values, cut] of distinct(frames, (effects) => render(AI_SDK, effects, turn))) {
        expect(await read(values), cut).toEqual(whole);
      }
    }
  }, 600_000);

  it("shows the recorded answer", async () => {
    const ends = frames.flatMap((frame) => (frame.frame === "events" ? frame.events : []));
    for (const turn of turns) {
      const end = ends.find((event) => event.type === "chat.complete" && event.turn_id === turn);
      if (!end?.data.answer) continue;
      const [message] = await read(render(AI_SDK, effectsOf(frames), turn));
      const texts = parts(message, "text") as { text: string }[];
      expect(texts.at(-1)?.text).toBe(end.data.answer);
    }
  });
});
