/** AG-UI over HTTP: runs, and the conversation of a client that resumes. */

import { type Event, EventType, type RunAgentInput } from "@ag-ui/client";
import { RunAgentInputSchema } from "@ag-ui/core/schemas";
import { requestIn } from "../../src/door/sent.ts";
import type { Stage } from "../../src/door/stage.ts";
import { handOn, streamTurn } from "../../src/door/turn_stream.ts";
import { answerOf, type Begun, beginAnswer, beginConnect, beginMessage } from "../ag-ui/run.ts";
import type { EventStream } from "./event_stream.ts";
import { Refusal, refusalOf } from "./refusal.ts";
import { readJson } from "./request_body.ts";
import { type Call, type Route, stop } from "./route.ts";

export const AG_UI: readonly Route[] = [
  ["POST", /^\/agui$/, run],
  ["POST", /^\/agui\/connect$/, connect],
  ["GET", /^\/agui\/([^/]+)$/, connect],
  ["POST", /^\/agui\/([^/]+)\/stop$/, stop],
];

/** The values that wait for a slow client before the stage's connection is closed. */
const WAITING_MAX = 256;

async function run(call: Call): Promise<void> {
  await call.hold(async (open) => {
    const input = readInput(await readJson(call.request));
    await sendRun(call.stage(input.threadId), input, open);
  });
}

/** Restate a conversation: to a client with the messages of the body, or with none. */
async function connect(call: Call): Promise<void> {
  await call.hold(async (open) => {
    const isGet = call.request.method === "GET";
    const input = isGet ? emptyInput(call.name, crypto.randomUUID()) : readInput(await readJson(call.request));
    await sendConversation(call.stage(input.threadId), input, open);
  });
}

/** Return the input of a run. Throws Refusal. */
function readInput(body: unknown): RunAgentInput {
  const { success, data, error } = RunAgentInputSchema.safeParse(body);
  const [issue] = error?.issues ?? [];
  if (!success) throw new Refusal(400, "bad_message", `${issue?.path.join(".")}: ${issue?.message}`);
  return data as RunAgentInput;
}

/** Return the input of a client that has read nothing. */
function emptyInput(threadId: string, runId: string): RunAgentInput {
  return { threadId, runId, messages: [], tools: [], context: [], state: {}, forwardedProps: {} };
}

/** Send a run: of a message, or of an answer to an interrupt. Throws Refusal for a token that the stage refuses. */
function sendRun(stage: Stage, input: RunAgentInput, open: () => EventStream): Promise<void> {
  return send(stage, input, open, async () => {
    const entry = answerOf(input);
    if (!entry) return beginMessage(stage, input, -1);
    const { n, event } = requestIn(await stage.readTurns(1), entry.interruptId);
    return beginAnswer(stage, input, entry, { n, turn: event.turn_id });
  });
}

/** Restate the newest turns, and continue the open one. Throws as `sendRun` does. */
function sendConversation(stage: Stage, input: RunAgentInput, open: () => EventStream): Promise<void> {
  return send(stage, input, open, () => beginConnect(stage, input, input.messages));
}

async function send(
  stage: Stage,
  { threadId, runId }: RunAgentInput,
  open: () => EventStream,
  begin: () => Promise<Begun>,
): Promise<void> {
  const begun = await begin().catch((error: unknown) => {
    const refusal = refusalOf(error);
    if (!refusal || refusal.status === 401) throw error;
    return refusal;
  });
  const stream = open();
  const run = { threadId, runId };
  await stream.send({ type: EventType.RUN_STARTED, ...run } satisfies Event);
  if (begun instanceof Refusal) {
    await stream.send({ type: EventType.RUN_ERROR, code: begun.code, message: begun.message } satisfies Event);
  } else {
    for (const event of begun.first) await stream.send(event);
    if (begun.following) {
      const events = streamTurn(stage, begun.door, { ...begun.following, waitingMax: WAITING_MAX });
      await handOn(events, (event) => stream.send(event), stream.left);
    } else await stream.send({ type: EventType.RUN_FINISHED, ...run } satisfies Event);
  }
  stream.end();
}
