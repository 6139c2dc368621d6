import { type Event, EventType } from "@ag-ui/client";
import type { UIMessageChunk } from "ai";
import { afterEach, expect, it, vi } from "vitest";
import { SteplineAgent } from "../../packages/ag-ui/index.ts";
import { steplineTransport } from "../../packages/ai-sdk/index.ts";
import { eventually } from "../eventually.ts";
import { effectsOf, named } from "../thread/recordings.ts";
import { StoryStage } from "./story_stage.ts";

const STORY = named("a stop");
const options = ({ url, conversation }: StoryStage) => ({ url, conversation, token: "a.b.c" });

/** The places of the story between its first text and the stop: each is a moment to stop at. */
const MOMENTS = STORY.flatMap((frame, at) => (frame.frame === "delta" ? [at + 1] : []));

/** The text of the answer and the notes in the first frames of the story. */
function textOf(frames: number): string {
  const effects = effectsOf(STORY.slice(0, frames));
  const texts = effects.filter((effect) => effect.kind === "textAppended" && /^(answer|notes)/.test(effect.lane));
  return texts.map((effect) => (effect.kind === "textAppended" ? effect.text : "")).join("");
}

interface Client {
  readonly texts: readonly string[];
  stop(): void;
  readonly done: Promise<unknown>;
}

function useAgUi(stage: StoryStage): Client {
  const agent = new SteplineAgent(options(stage));
  const texts: string[] = [];
  agent.subscribe({
    onEvent: ({ event }) => {
      if (event.type === EventType.TEXT_MESSAGE_CONTENT) texts.push((event as Event & { delta: string }).delta);
    },
  });
  agent.addMessage({ id: "m1", role: "user", content: "what is new?" });
  return { texts, stop: () => agent.abortRun(), done: agent.runAgent() };
}

function useAiSdk(stage: StoryStage): Client {
  const abort = new AbortController();
  const texts: string[] = [];
  const read = async () => {
    const stream = await steplineTransport(options(stage)).sendMessages({
      trigger: "submit-message",
      chatId: "c-1",
      messageId: undefined,
      messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "what is new?" }] }],
      abortSignal: abort.signal,
    });
    for await (const chunk of stream as unknown as AsyncIterable<UIMessageChunk>) {
      if (chunk.type === "text-delta") texts.push(chunk.delta);
    }
  };
  return { texts, stop: () => abort.abort(), done: read() };
}

afterEach(() => {
  vi.unstubAllGlobals();
});

it.each([
  { door: "AG-UI", use: useAgUi },
  { door: "AI SDK", use: useAiSdk },
])(
  "a stop at the door $door asks for the end of the turn, and no further delta is shown",
  async ({ use }) => {
    for (const at of MOMENTS) {
      const stage = new StoryStage(STORY);
      const client = use(stage);
      await stage.play(at);
      await eventually(() => expect(client.texts.join("").length).toBeGreaterThanOrEqual(textOf(at).length));
      const shown = client.texts.length;
      client.stop();
      await stage.play();
      await client.done;
      expect(client.texts.length - shown, `at ${at}`).toBeLessThanOrEqual(1);
      await eventually(() => expect(stage.asked("event")).toMatchObject([{ kind: "stop" }]));
      vi.unstubAllGlobals();
    }
  },
  60_000,
);
