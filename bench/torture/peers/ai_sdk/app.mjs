// The AI SDK's chat with resumable streams, as its page "Chatbot Resume Streams" has it: chats and streams are in Redis.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { serve } from "@hono/node-server";
import {
  convertToModelMessages,
  createUIMessageStreamResponse,
  generateId,
  isStepCount,
  streamText,
  tool,
  toUIMessageStream,
  UI_MESSAGE_STREAM_HEADERS,
} from "ai";
import { Hono } from "hono";
import { createClient } from "redis";
import { createResumableStreamContext } from "resumable-stream";
import { z } from "zod";
import { effect } from "./effects.mjs";

const { MODEL_URL, REDIS_URL, INSTRUCTIONS, LOOKS, PORT } = process.env;

const connected = async () => {
  const client = createClient({ url: REDIS_URL });
  client.on("error", (error) => console.error("redis:", error.message));
  await client.connect();
  return client;
};
const [redis, publisher, subscriber] = await Promise.all([connected(), connected(), connected()]);
const streams = createResumableStreamContext({ waitUntil: (work) => work.catch(console.error), publisher, subscriber });

const scripted = createOpenAICompatible({ name: "scripted", baseURL: `${MODEL_URL}/v1`, apiKey: "none" });
const inputSchema = z.object({ word: z.string() });
const tools = {
  ...(LOOKS ? { look: tool({ description: "Look.", inputSchema, execute: ({ word }) => `looked ${word}` }) } : {}),
  note: tool({ description: "Make a note.", inputSchema, execute: ({ word }) => effect("noted", word) }),
  pay: tool({ description: "Pay.", inputSchema, execute: ({ word }) => effect("paid", word) }),
};

const readChat = async (id) => {
  const { messages = "[]", activeStreamId } = await redis.hGetAll(`chat:${id}`);
  return { messages: JSON.parse(messages), activeStreamId: activeStreamId || null };
};
const saveChat = ({ id, messages, activeStreamId }) =>
  redis.hSet(`chat:${id}`, {
    ...(messages === undefined ? {} : { messages: JSON.stringify(messages) }),
    ...(activeStreamId === undefined ? {} : { activeStreamId: activeStreamId ?? "" }),
  });
/** The work that produces each stream, for the stop endpoint. */
const working = new Map();

const app = new Hono();
app.get("/health", (c) => c.json({ ok: true }));
app.get("/api/chat/:id", async (c) => c.json(await readChat(c.req.param("id"))));

app.post("/api/chat", async (c) => {
  const { id, message } = await c.req.json();
  const chat = await readChat(id);
  const known = chat.messages.some((one) => one.id === message.id);
  const messages = known
    ? chat.messages.map((one) => (one.id === message.id ? message : one))
    : [...chat.messages, message];
  await saveChat({ id, messages, activeStreamId: null });
  const streamId = generateId();
  const stopping = new AbortController();
  working.set(streamId, stopping);
  const result = streamText({
    model: scripted("scripted"),
    instructions: INSTRUCTIONS,
    messages: await convertToModelMessages(messages),
    tools,
    toolApproval: { pay: "user-approval" },
    stopWhen: isStepCount(20),
    abortSignal: stopping.signal,
  });
  return createUIMessageStreamResponse({
    stream: toUIMessageStream({
      stream: result.stream,
      originalMessages: messages,
      generateMessageId: generateId,
      onEnd: async ({ messages }) => {
        working.delete(streamId);
        await saveChat({ id, messages, activeStreamId: null });
      },
    }),
    async consumeSseStream({ stream }) {
      await streams.createNewResumableStream(streamId, () => stream);
      await saveChat({ id, activeStreamId: streamId });
    },
  });
});

app.get("/api/chat/:id/stream", async (c) => {
  const { activeStreamId } = await readChat(c.req.param("id"));
  if (activeStreamId == null) return new Response(null, { status: 204 });
  return new Response(await streams.resumeExistingStream(activeStreamId), { headers: UI_MESSAGE_STREAM_HEADERS });
});

app.post("/api/chat/:id/stop", async (c) => {
  const id = c.req.param("id");
  const { activeStreamId } = await readChat(id);
  working.get(activeStreamId)?.abort();
  if ((await readChat(id)).activeStreamId === activeStreamId) await saveChat({ id, activeStreamId: null });
  return c.json({ success: true });
});

const server = serve({ fetch: app.fetch, port: Number(PORT), hostname: "127.0.0.1" });
process.on("SIGTERM", () => server.close(() => process.exit(0)));
