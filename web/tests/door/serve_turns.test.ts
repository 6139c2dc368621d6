/** Clients of the published packages at a server of doors, cut off and resumed, end with the same turn as in a browser. */

import { EventType } from "@ag-ui/client";
import type { UIMessageChunk } from "ai";
import { afterEach, expect, it, vi } from "vitest";
import { AI_SDK } from "../../packages/ai-sdk/mapping.ts";
import { eventually } from "../eventually.ts";
import { effectsOf } from "../thread/recordings.ts";
import { readMessage, readRun, runOf } from "./readers.ts";
import { Served, type ServedAgent } from "./served.ts";
import { cutsOf, SERVED, type ServedTurn } from "./served_turns.ts";
import { render } from "./stories.ts";

afterEach(() => {
  vi.unstubAllGlobals();
});

/** Return how many values a client has of the first `at` frames. */
function valuesOf({ frames, turn }: ServedTurn, at: number, read: typeof readAiSdk | typeof runOf): number {
  return read(effectsOf(frames.slice(0, at)), turn).length;
}

function readAiSdk(effects: Parameters<typeof runOf>[0], turn: string): readonly UIMessageChunk[] {
  return render(AI_SDK, effects, turn);
}

// --- AG-UI

async function checkAgUi(served: ServedTurn): Promise<void> {
  const { name, turn, frames, begin, message } = served;
  const expected = await readRun(runOf(effectsOf(frames), turn));
  const check = ({ messages, state }: ServedAgent, when: string) => {
    const own = expected.messages.slice(1);
    expect(messages.slice(messages.length - own.length), `${name}, ${when}`).toEqual(own);
    expect(state, `${name}, ${when}`).toEqual(expected.state);
  };
  for (const [place, cut] of cutsOf(served).entries()) {
    const server = await Served.at(frames, begin);
    const agent = server.agent([{ id: message.id, role: "user", content: message.text }]);
    const cutOff = agent.runAgent().catch(() => null);
    await server.stage.play(cut);
    await eventually(() => expect(agent.events.length).toBeGreaterThanOrEqual(valuesOf(served, cut, runOf)));
    if (place % 2) agent.abortRun();
    else {
      await server.replace();
      agent.url = `${server.url}/agui`;
    }
    await cutOff;
    const hasBegun = agent.events.some(({ type }) => type === EventType.STATE_SNAPSHOT);
    const late = server.agent([]);
    const done = hasBegun ? agent.connectAgent() : agent.runAgent();
    await server.stage.play();
    await Promise.all([done, late.connectAgent()]);
    check(agent, `cut at ${cut}`);
    check(late, `later than ${cut}`);
    await server.end();
    vi.unstubAllGlobals();
  }
}

it("a run of AG-UI that is cut off ends with the same messages and state", async () => {
  for (const served of SERVED) await checkAgUi(served);
}, 600_000);

// --- AI SDK

/** Read a stream until it ends or breaks. */
async function readInto(
  chunks: UIMessageChunk[],
  opening: Promise<ReadableStream<UIMessageChunk> | null>,
): Promise<void> {
  const stream = (await opening) ?? [];
  for await (const chunk of stream as unknown as AsyncIterable<UIMessageChunk>) chunks.push(chunk);
}

async function checkAiSdk(served: ServedTurn): Promise<void> {
  const { name, turn, frames, begin, message } = served;
  const expected = await readMessage(readAiSdk(effectsOf(frames), turn));
  for (const [place, cut] of cutsOf(served).entries()) {
    const server = await Served.at(frames, begin);
    const abort = new AbortController();
    const post = (abortSignal: AbortSignal | undefined) =>
      server.transport().sendMessages({
        trigger: "submit-message",
        chatId: server.stage.conversation,
        messageId: undefined,
        messages: [{ id: message.id, role: "user", parts: [{ type: "text", text: message.text }] }],
        abortSignal,
      });
    const first: UIMessageChunk[] = [];
    const cutOff = readInto(first, post(abort.signal)).catch(() => null);
    await server.stage.play(cut);
    await eventually(() => expect(first.length).toBeGreaterThanOrEqual(valuesOf(served, cut, readAiSdk)));
    if (place % 2) abort.abort();
    else await server.replace();
    await cutOff;
    const partial = first.find((chunk) => chunk.type === "start")?.messageId ?? "";
    const rest: UIMessageChunk[] = [];
    const again = server.transport(partial).reconnectToStream({ chatId: server.stage.conversation });
    const done = readInto(rest, partial ? again : post(undefined));
    await server.stage.play();
    await done;
    expect(await readMessage(rest), `${name}, cut at ${cut}`).toEqual(expected);
    await server.end();
    vi.unstubAllGlobals();
  }
}

it("a message of the AI SDK that is cut off is replayed to the same end", async () => {
  for (const served of SERVED) await checkAiSdk(served);
}, 600_000);
