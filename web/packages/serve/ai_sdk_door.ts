/** The UI message stream of the AI SDK over HTTP, as `DefaultChatTransport` requests it. */

import { safeValidateUIMessages, UI_MESSAGE_STREAM_HEADERS, type UIMessage, type UIMessageChunk } from "ai";
import type { Stage } from "../../src/door/stage.ts";
import { handOn } from "../../src/door/turn_stream.ts";
import { SteplineTransport } from "../ai-sdk/index.ts";
import type { EventStream } from "./event_stream.ts";
import { Refusal } from "./refusal.ts";
import { readJson } from "./request_body.ts";
import { type Call, type Route, sendJson, stop } from "./route.ts";

export const AI_SDK: readonly Route[] = [
  ["POST", /^\/chat$/, chat],
  ["GET", /^\/chat\/([^/]+)\/stream$/, resume],
  ["GET", /^\/chat\/([^/]+)\/messages$/, messages],
  ["POST", /^\/chat\/([^/]+)\/stop$/, stop],
];

/** The header by which clients recognise the protocol. */
const VERSION = "x-vercel-ai-ui-message-stream";
const HEADERS = { [VERSION]: UI_MESSAGE_STREAM_HEADERS[VERSION] };

/** The body of `DefaultChatTransport`, and the options of `MessageBody`. */
interface ChatRequest {
  readonly id: string;
  readonly messages: readonly UIMessage[];
  readonly trigger: "submit-message" | "regenerate-message";
  readonly messageId: string | undefined;
  readonly body: object;
}

async function chat(call: Call): Promise<void> {
  await call.hold(async (open) => {
    const read = await readChat(await readJson(call.request));
    await sendTurn(call.stage(read.id), read, () => open(HEADERS));
  });
}

async function resume(call: Call): Promise<void> {
  await call.hold(async (open) => {
    const turn = call.url.searchParams.get("turn") ?? "";
    const isSent = await resendTurn(call.stage(call.name), turn, () => open(HEADERS));
    if (!isSent) call.response.writeHead(204).end();
  });
}

async function messages(call: Call): Promise<void> {
  sendJson(call.response, await new SteplineTransport(call.stage(call.name)).messages(), 200);
}

/** Return the request of a body, with the one message that is sent. Throws Refusal. */
async function readChat(body: unknown): Promise<ChatRequest> {
  const { id, messages, trigger, messageId, ...options } = (body ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof id !== "string" || !Array.isArray(messages)) {
    throw new Refusal(400, "bad_message", "`id` or `messages` is missing");
  }
  const one = messages.find((message) => message?.id === messageId) ?? messages.at(-1);
  const checked = await safeValidateUIMessages({ messages: [one] });
  if (!checked.success) throw new Refusal(400, "bad_message", "the last message is not valid");
  return {
    id,
    messages: checked.data,
    trigger: trigger === "regenerate-message" ? trigger : "submit-message",
    messageId: typeof messageId === "string" ? messageId : undefined,
    body: options,
  };
}

/** Send the turn of a message, or of an answer to an approval. Throws ClientError, ApiError. */
async function sendTurn(stage: Stage, chat: ChatRequest, open: () => EventStream): Promise<void> {
  const { id: chatId, messages, ...rest } = chat;
  const request = { ...rest, chatId, messages: [...messages], abortSignal: undefined };
  await send(await new SteplineTransport(stage).sendMessages(request), open());
}

/** Send the open turn from its beginning, or `turn` if it is the newest; return false if there is none. Throws ApiError. */
async function resendTurn(stage: Stage, turn: string, open: () => EventStream): Promise<boolean> {
  const request = { chatId: stage.conversation, body: { turn } };
  const chunks = await new SteplineTransport(stage).reconnectToStream(request);
  if (chunks) await send(chunks, open());
  return chunks !== null;
}

async function send(chunks: ReadableStream<UIMessageChunk>, stream: EventStream): Promise<void> {
  await handOn(chunks, (chunk) => stream.send(chunk), stream.left);
  stream.end("[DONE]");
}
