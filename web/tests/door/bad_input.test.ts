/** Bad input at the doors of the browser: each is the error of its protocol, with a code of ours. */

import { type ContentPart, type Event, EventType, type Message } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { afterEach, expect, it, vi } from "vitest";
import { SteplineAgent } from "../../packages/ag-ui/index.ts";
import { type SteplineTransport, steplineTransport } from "../../packages/ai-sdk/index.ts";
import type { Frame } from "../../src/client/index.ts";
import { eventually } from "../eventually.ts";
import { named } from "../thread/recordings.ts";
import { StoryStage } from "./story_stage.ts";

afterEach(() => {
  vi.unstubAllGlobals();
});

const ANSWER = named("an answer");
const APPROVAL = named("a call that is approved");
const asked = 1 + APPROVAL.findIndex((frame) => frame.frame === "events" && frame.events.some(isRequest));

function isRequest({ type }: { type: string }): boolean {
  return type === "approval.requested";
}

/** What the stage refuses; `before` frames of a story were sent. */
const REFUSED = [
  { name: "a foreign conversation", code: "not_found", before: 0 },
  { name: "a deleted conversation", code: "conversation_deleted", before: 0 },
  { name: "a message id used for another text", code: "message_id_taken", before: ANSWER.length },
  { name: "a text that is too long", code: "input_too_long", before: 0 },
  { name: "a user who sends too often", code: "rate_limited", before: 0 },
] as const;

// --- AI SDK

type Parts = UIMessage["parts"];

function transportOf(stage: StoryStage): SteplineTransport {
  const { url, conversation } = stage;
  return steplineTransport({ url, conversation, token: () => "a.b.c" });
}

/** Send the last message of these; return the error of the call, else that of the stream. */
async function errorOf(stage: StoryStage, ...messages: readonly UIMessage[]): Promise<string> {
  const sent = { trigger: "submit-message" as const, chatId: "c", messageId: undefined, abortSignal: undefined };
  try {
    const stream = await transportOf(stage).sendMessages({ ...sent, messages: [...messages] });
    let error = "";
    const onError = (given: unknown) => {
      error = messageOf(given);
    };
    const chunks = readUIMessageStream<UIMessage>({ stream, onError });
    for await (const _ of chunks);
    return error;
  } catch (error) {
    return `${(error as { code?: string }).code}: ${messageOf(error)}`;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function said(...parts: Parts): UIMessage {
  return { id: "m1", role: "user", parts };
}

const TEXT = { type: "text", text: "go on" } as const;
const FILE = { type: "file", mediaType: "image/png", filename: "a.png" } as const;
const CALL = { type: "dynamic-tool", toolName: "bank.pay", toolCallId: "tc_1", input: {} } as const;

const UNSUPPORTED: Readonly<Record<string, Parts[number]>> = {
  "a file by its address": { ...FILE, url: "https://example.com/a.png" },
  "a file of a provider": { ...FILE, url: "", providerReference: { openai: "file-1" } },
  "a file without data": { ...FILE, url: "data:image/png;base64" },
  "a file that is not base64": { ...FILE, url: "data:image/png;base64,%%%" },
  "a file that is escaped wrongly": { ...FILE, url: "data:text/plain,%E0%A4%A" },
  reasoning: { type: "reasoning", text: "hm" },
  "a file of reasoning": { type: "reasoning-file", mediaType: "image/png", url: "data:image/png;base64,aGk=" },
  "a source": { type: "source-url", sourceId: "1", url: "https://example.com" },
  "a document": { type: "source-document", sourceId: "1", mediaType: "text/plain", title: "a" },
  "data of the page": { type: "data-cart", data: { items: 1 } },
  "a part of one provider": { type: "custom", kind: "openai.compaction" },
  "a call": { ...CALL, state: "input-available" },
  "a call of a provider's tool": { ...CALL, type: "tool-web_search", state: "input-available", providerExecuted: true },
};

it.each(REFUSED)("AI SDK: $name is refused with $code", async ({ code, before }) => {
  const stage = new StoryStage(ANSWER, before);
  stage.refuse("send", code);
  expect(await errorOf(stage, said(TEXT))).toBe(`${code}: refused: ${code}`);
  expect(stage.listeners).toBe(0);
});

it.each(Object.entries(UNSUPPORTED))("AI SDK: %s in a message is refused before anything is sent", async (_, part) => {
  const stage = new StoryStage(ANSWER);
  expect(await errorOf(stage, said(TEXT, part))).toMatch(/^unsupported_part: /);
  expect(stage.sent).toEqual([]);
});

it("AI SDK: audio is refused by the stage", async () => {
  const stage = new StoryStage(ANSWER);
  const audio = { ...FILE, mediaType: "audio/mp3", filename: "a.mp3", url: "data:audio/mp3;base64,aGk=" };
  expect(await errorOf(stage, said(TEXT, audio))).toMatch(/^type_not_allowed: /);
  expect(stage.sent).toEqual([]);
});

it.each([
  { name: "no message", messages: [], code: "unsupported_message" },
  {
    name: "a message of the system",
    messages: [{ id: "s", role: "system", parts: [TEXT] }],
    code: "unsupported_message",
  },
  { name: "a message without a call", messages: [answering()], code: "approval_not_pending" },
  {
    name: "a tool's result that was not requested",
    messages: [answering({ ...CALL, state: "output-available", output: "paid" })],
    code: "approval_not_pending",
  },
  {
    name: "a tool's error that was not requested",
    messages: [answering({ ...CALL, state: "output-error", errorText: "no" })],
    code: "approval_not_pending",
  },
  { name: "a position that is a text", messages: [approving("3")], code: "bad_offset" },
  { name: "a position before the beginning", messages: [approving(-1)], code: "bad_offset" },
  { name: "a position between two batches", messages: [approving(1.5)], code: "bad_offset" },
] satisfies readonly { name: string; messages: UIMessage[]; code: string }[])(
  "AI SDK: $name is refused before anything is sent",
  async ({ messages, code }) => {
    const stage = new StoryStage(APPROVAL, asked);
    expect(await errorOf(stage, ...messages)).toMatch(new RegExp(`^${code}: `));
    expect(stage.sent).toEqual([]);
  },
);

it("AI SDK: an answer that the stage does not wait for, and one beyond the end, are errors of the stream", async () => {
  const stage = new StoryStage(APPROVAL, asked);
  stage.refuse("approve", "approval_not_pending");
  expect(await errorOf(stage, approving(3))).toMatch(/^approval_not_pending: /);
  expect(await errorOf(new StoryStage(APPROVAL, asked), approving(99))).toMatch(/^resume_beyond_end: /);
});

function answering(...parts: Parts): UIMessage {
  return { id: "turn", role: "assistant", parts };
}

/** Approve a call; `n` is the position in the message's metadata. */
function approving(n: unknown): UIMessage {
  const approval = { id: "tc_1", approved: true };
  return { ...answering({ ...CALL, state: "approval-responded", approval }), metadata: { turn: "turn_1", n } };
}

it("AI SDK: a page that is ahead of a replaced conversation reads it from its beginning", async () => {
  const transport = transportOf(new StoryStage(named("a program"), named("a program").length));
  await transport.messages();
  const stage = new StoryStage(ANSWER);
  const chunks: UIMessageChunk[] = [];
  const sent = { trigger: "submit-message" as const, chatId: "c", messageId: undefined, abortSignal: undefined };
  const stream = await transport.sendMessages({ ...sent, messages: [said(TEXT)] });
  const done = stream.pipeTo(new WritableStream({ write: (chunk) => void chunks.push(chunk) }));
  await stage.play();
  await done;
  expect(chunks.at(-1)).toMatchObject({ type: "finish", finishReason: "stop" });
  expect(chunks.filter(({ type }) => type === "error")).toEqual([]);
});

// --- AG-UI

function agentOf(stage: StoryStage): [SteplineAgent, Event[]] {
  const { url, conversation } = stage;
  const agent = new SteplineAgent({ url, conversation, token: () => "a.b.c" });
  const events: Event[] = [];
  agent.subscribe({ onEvent: ({ event }) => void events.push(event as Event) });
  return [agent, events];
}

/** Run an agent; return the code of the run's error, which must be an event of the protocol. */
async function codeOf(agent: SteplineAgent, events: Event[], run: Parameters<SteplineAgent["runAgent"]>[0] = {}) {
  await agent.runAgent(run);
  const last = events.at(-1);
  expect(EventSchemas.safeParse(last).success).toBe(true);
  expect(last?.type).toBe(EventType.RUN_ERROR);
  return (last as { code?: string }).code;
}

it.each(REFUSED)("AG-UI: $name is refused with $code", async ({ code, before }) => {
  const stage = new StoryStage(ANSWER, before);
  stage.refuse("send", code);
  const [agent, events] = agentOf(stage);
  agent.addMessage({ id: "m1", role: "user", content: "go on" });
  expect(await codeOf(agent, events)).toBe(code);
  expect(stage.listeners).toBe(0);
});

const MEDIA = { type: "url", value: "https://example.com/a" } as const;
const DATA = { type: "data", mimeType: "image/png" } as const;

const PARTS: Readonly<Record<string, [ContentPart, string]>> = {
  "a picture by its address": [{ type: "image", source: MEDIA }, "unsupported_part"],
  "audio by its address": [{ type: "audio", source: MEDIA }, "unsupported_part"],
  "a video by its address": [{ type: "video", source: MEDIA }, "unsupported_part"],
  "a document by its address": [{ type: "document", source: MEDIA }, "unsupported_part"],
  "a file that is not base64": [{ type: "image", source: { ...DATA, value: "%%%" } }, "unsupported_part"],
  audio: [
    { type: "audio", source: { ...DATA, mimeType: "audio/mp3", value: "aGk=" }, metadata: { filename: "a.mp3" } },
    "type_not_allowed",
  ],
};

it.each(Object.entries(PARTS))("AG-UI: %s in a message is refused before anything is sent", async (_, [part, code]) => {
  const stage = new StoryStage(ANSWER);
  const [agent, events] = agentOf(stage);
  agent.setMessages([{ id: "m1", role: "user", content: [{ type: "text", text: "go" }, part] }]);
  expect(await codeOf(agent, events)).toBe(code);
  expect(stage.sent).toEqual([]);
});

it.each([
  { id: "t", role: "tool", toolCallId: "tc_1", content: "unasked" },
  { id: "s", role: "system", content: "obey" },
  { id: "d", role: "developer", content: "obey" },
  { id: "a", role: "assistant", content: "I answer." },
] satisfies readonly Message[])("AG-UI: a run after a message of the role $role is refused", async (message) => {
  const stage = new StoryStage(ANSWER);
  const [agent, events] = agentOf(stage);
  agent.setMessages([message]);
  expect(await codeOf(agent, events)).toBe("unsupported_message");
  expect(stage.sent).toEqual([]);
});

it.each([
  { name: "an answer without a verdict", payload: "yes", code: "bad_message" },
  { name: "a verdict that is a text", payload: { approved: "yes" }, code: "bad_message" },
  { name: "a position that is a text", n: "3", code: "bad_offset" },
  { name: "a position beyond the end", n: 99, code: "resume_beyond_end" },
  { name: "a second answer", further: [{ interruptId: "tc_2", status: "cancelled" as const }], code: "bad_message" },
])("AG-UI: $name is refused with $code", async ({ payload = { approved: true }, n = 3, further = [], code }) => {
  const stage = new StoryStage(APPROVAL, asked);
  const [agent, events] = agentOf(stage);
  agent.pendingInterrupts = [
    { id: "tc_1", reason: "tool_approval", metadata: { stepline: { n, turn: "turn_1" } } },
    ...further.map(({ interruptId }) => ({ id: interruptId, reason: "tool_approval" })),
  ];
  const resume = [{ interruptId: "tc_1", status: "resolved" as const, payload }, ...further];
  expect(await codeOf(agent, events, { resume })).toBe(code);
});

it("AG-UI: an answer that the stage does not wait for is an error of the run", async () => {
  const stage = new StoryStage(APPROVAL, asked);
  stage.refuse("deny", "approval_not_pending");
  const [agent, events] = agentOf(stage);
  agent.pendingInterrupts = [{ id: "tc_9", reason: "tool_approval" }];
  const resume = [{ interruptId: "tc_9", status: "cancelled" as const }];
  expect(await codeOf(agent, events, { resume })).toBe("approval_not_pending");
});

it("AG-UI: a subscriber that is slow loses nothing", async () => {
  const frames: readonly Frame[] = named("a program");
  const stage = new StoryStage(frames);
  const [agent] = agentOf(stage);
  agent.addMessage({ id: "m1", role: "user", content: "go" });
  let seen = 0;
  agent.subscribe({
    async onEvent() {
      await new Promise((resolve) => setTimeout(resolve));
      seen += 1;
    },
  });
  const done = agent.runAgent();
  await stage.play();
  await done;
  await eventually(() => expect(seen).toBeGreaterThan(frames.length));
  expect(agent.messages.filter(({ role, content }) => role === "assistant" && content)).toMatchObject([
    { content: "I count." },
    { content: "Done." },
  ]);
});
