/**
 * Stops turns of a stage, by our own client or at a door, and watches by our own client how long text still arrives.
 *
 * `bench/door_stop.py` writes a sample on a line: the door, a new conversation, and a prompt that is answered slowly.
 */

import process from "node:process";
import { createInterface } from "node:readline";
import { SteplineAgent } from "../../packages/ag-ui/index.ts";
import { steplineTransport } from "../../packages/ai-sdk/index.ts";
import { responseId } from "../../packages/serve/responses/response_id.ts";
import { DoorServer } from "../../packages/serve/server.ts";
import { emptyState, Session } from "../../src/client/index.ts";
import { Stage, type StageOptions } from "../../src/door/stage.ts";

/** A door over server-sent events. */
interface ServedDoor {
  /** Return the address that continues the turn of a message in a conversation, and the one that stops it. */
  readonly paths: (conversation: string, message: string) => readonly [stream: string, stop: string];
  /** The type of a piece of text. */
  readonly piece: string;
}

const SERVED = {
  served_ai_sdk: { paths: (name) => [`/chat/${name}/stream`, `/chat/${name}/stop`], piece: "text-delta" },
  served_ag_ui: { paths: (name) => [`/agui/${name}`, `/agui/${name}/stop`], piece: "TEXT_MESSAGE_CONTENT" },
  served_responses: {
    paths(conversation, id) {
      const response = `/v1/responses/${responseId({ conversation, after: "message", id, model: "stepline" })}`;
      return [`${response}?stream=true`, `${response}/cancel`];
    },
    piece: "response.output_text.delta",
  },
} as const satisfies Record<string, ServedDoor>;

interface Asked extends StageOptions {
  readonly door: "client" | "ai_sdk" | "ag_ui" | "durable_streams" | keyof typeof SERVED;
  readonly token: string;
  readonly prompt: string;
}

/** Milliseconds from the stop to the last text, and to the end of the turn. */
interface Found {
  readonly text: number;
  readonly end: number;
}

/** The pieces of text before a stop, and the time in which it comes after them: that between two looks of the worker. */
const PIECES = 3;
const SPREAD_MS = 300;

async function measure(asked: Asked): Promise<Found> {
  const { door, conversation, prompt } = asked;
  const stage = new Stage(asked);
  let [pieces, textMs, endMs] = [0, 0, 0];
  let stream: Promise<Found> | null = null;
  let [written, ended, failed] = [() => {}, () => {}, (_: Error) => {}];
  const hasText = new Promise<void>((resolve) => {
    written = resolve;
  });
  const hasEnded = new Promise<void>((resolve, reject) => {
    [ended, failed] = [resolve, reject];
  });
  const session = new Session({
    dial: stage.dial,
    clock: stage.clock,
    state: emptyState(conversation),
    onEffects(effects) {
      for (const { kind } of effects) {
        if (kind === "textAppended") {
          textMs = performance.now();
          pieces += 1;
          if (pieces === PIECES) written();
        }
        if (kind === "turnEnded") {
          endMs = performance.now();
          ended();
        }
      }
    },
    onLink: () => undefined,
    onFailure: ({ code }) => failed(new Error(code)),
  });
  session.start();
  const message = session.say(prompt);
  await Promise.race([hasText, hasEnded]);
  let stop: () => unknown = () => session.stop();
  if (door === "ai_sdk") stop = await readChunks(asked);
  else if (door === "ag_ui") stop = await readEvents(asked);
  else if (door === "durable_streams") stream = poll(asked);
  else if (door !== "client") [stop, stream] = await readServed(asked, SERVED[door], message);
  await new Promise((resolve) => setTimeout(resolve, SPREAD_MS * Math.random()));
  const stoppedMs = performance.now();
  stop();
  await hasEnded;
  session.close();
  const read = await stream;
  return { text: (read?.text ?? textMs) - stoppedMs, end: (read?.end ?? endMs) - stoppedMs };
}

/** Continue the open turn in the AI SDK; return its stop once there is text. */
async function readChunks(asked: Asked): Promise<() => void> {
  const abort = new AbortController();
  const given = { chatId: asked.conversation, abortSignal: abort.signal };
  const chunks = await steplineTransport(asked).reconnectToStream(given);
  await new Promise<void>((resolve) => {
    const write = ({ type }: { type: string }) => (type === "text-delta" ? resolve() : undefined);
    void chunks?.pipeTo(new WritableStream({ write }));
  });
  return () => abort.abort();
}

/** Continue the open turn in AG-UI; return its stop once there is text. */
async function readEvents(asked: Asked): Promise<() => void> {
  const agent = new SteplineAgent(asked);
  await new Promise<void>((resolve) => {
    agent.subscribe({ onTextMessageContentEvent: () => resolve() });
    void agent.connectAgent();
  });
  return () => agent.abortRun();
}

/** Continue the open turn over HTTP; once there is text, return its stop, and when its last text and its end arrive. */
async function readServed(
  { url, token, conversation }: Asked,
  door: ServedDoor,
  message: string,
): Promise<[stop: () => unknown, read: Promise<Found>]> {
  const server = new DoorServer({
    url,
    host: "127.0.0.1",
    port: 0,
    streams: 1,
    origins: [],
    beatS: 600,
    unreadS: 600,
    issuer: "",
    mcpAnswers: [],
    version: "0",
  });
  const address = await server.listen();
  const headers = { Authorization: `Bearer ${token}` };
  const [stream, stop] = door.paths(conversation, message).map((path) => `${address}${path}`);
  const { body } = await fetch(String(stream), { headers });
  let textMs = 0;
  let written = () => {};
  const hasText = new Promise<void>((resolve) => {
    written = resolve;
  });
  const read = (async () => {
    for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      if (!part.includes(`"type":"${door.piece}"`)) continue;
      textMs = performance.now();
      written();
    }
    await server.end();
    return { text: textMs, end: performance.now() };
  })();
  await hasText;
  return [() => fetch(String(stop), { method: "POST", headers }), read];
}

/** Read the stream of a conversation; return when its last text and the end of its turn arrived. */
async function poll({ url, token, conversation }: Asked): Promise<Found> {
  let [offset, cursor, textMs] = ["-1", "", 0];
  for (;;) {
    const address = `${url}/v1/conversations/${conversation}/stream?offset=${offset}&live=long-poll&cursor=${cursor}`;
    const answer = await fetch(address, { headers: { Authorization: `Bearer ${token}` } });
    const body = await answer.text();
    if (!answer.ok) throw new Error(body);
    offset = answer.headers.get("Stream-Next-Offset") ?? "";
    cursor = answer.headers.get("Stream-Cursor") ?? "";
    if (/"frame":"delta"|"solver\.react\.decision"/.test(body)) textMs = performance.now();
    if (body.includes('"chat.complete"')) return { text: textMs, end: performance.now() };
  }
}

for await (const asked of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await measure(JSON.parse(asked))));
}
