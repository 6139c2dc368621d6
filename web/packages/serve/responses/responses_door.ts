/** Open Responses over HTTP: responses that stream, that are waited for, and in the background. */

import { createHash, randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { ClientError, type ClientEvent, type Session } from "../../../src/client/index.ts";
import { followIn } from "../../../src/door/sent.ts";
import type { Stage } from "../../../src/door/stage.ts";
import { type Following, handOn, streamTurn } from "../../../src/door/turn_stream.ts";
import type { EventStream } from "../event_stream.ts";
import { Refusal } from "../refusal.ts";
import { readJson } from "../request_body.ts";
import { type Call, type Open, type Route, sendJson } from "../route.ts";
import { currentResponse, isOver, type ResponseEvent, restOf, stateOf } from "./draft.ts";
import { refusing } from "./error.ts";
import { composeMessage } from "./input.ts";
import { begin, openResponses } from "./mapping.ts";
import { type Found, findResponse, followAnswer, joining, readResponse } from "./reading.ts";
import { type Asked, readRequest } from "./request.ts";
import type { Resource, ResponseFacts } from "./resource.ts";
import { type ResponseName, readItemId, readResponseId } from "./response_id.ts";

export const RESPONSES: readonly Route[] = [
  ["GET", /^\/v1\/models$/, refusing(models)],
  ["POST", /^\/v1\/responses$/, refusing(create)],
  ["GET", /^\/v1\/responses\/([^/]+)$/, refusing(retrieve)],
  ["POST", /^\/v1\/responses\/([^/]+)\/cancel$/, refusing(cancel)],
  ["GET", /^\/v1\/files\/([^/]+)\/content$/, refusing(file)],
];

/** The model that is the stage's default bundle; any other name is a bundle's. */
const MODEL = "stepline";

/** Headers by which clients name a conversation: LibreChat by its configuration, Open WebUI by its own. */
const CONVERSATION_HEADERS = ["x-conversation-id", "x-openwebui-chat-id"];

/** The values that wait for a slow client before the stage's connection is closed. */
const WAITING_MAX = 256;

const LAST = new Set(["response.completed", "response.incomplete", "response.failed"]);

/** A response that has begun: `following` sends what begins it, unless the log has that already. */
interface Begun {
  readonly facts: ResponseFacts;
  readonly following: Following;
}

async function models(call: Call): Promise<void> {
  const bundle = call.url.searchParams.get("bundle");
  // The stage checks the token with any request.
  await call.stage(MODEL).readTurns(1);
  const model = { id: bundle || MODEL, object: "model", created: 0, owned_by: "stepline" };
  sendJson(call.response, { object: "list", data: [model] }, 200);
}

async function create(call: Call): Promise<void> {
  await call.hold(async (open, left) => {
    const asked = readRequest(await readJson(call.request));
    const id = idOf(call.request.headers);
    const conversation = conversationOf(asked, call.request.headers) || `conv_${id}`;
    const model = asked.model || MODEL;
    const stage = call.stage(conversation, model === MODEL ? "" : model);
    const begun = await beginResponse(stage, asked, { conversation, after: "message", id: `m_${id}`, model });
    if (asked.stream) await sendEvents(stage, begun, open, left);
    else if (asked.background) {
      if (begun.following.send) await stage.send(begun.following.send);
      sendJson(call.response, currentResponse(stateOf(begun.facts)), 200);
    } else sendJson(call.response, await waitFor(stage, begun, left), 200);
  });
}

async function retrieve(call: Call): Promise<void> {
  const { searchParams } = call.url;
  const after = Number(searchParams.get("starting_after") ?? -1);
  if (!Number.isSafeInteger(after)) throw new ClientError("bad_offset", "`starting_after` is no sequence number");
  await call.hold(async (open, left) => {
    const [stage, found] = await find(call);
    if (searchParams.get("stream") !== "true") {
      sendJson(call.response, currentResponse(readResponse(found)), 200);
    } else if (found.handedBack) throw new ClientError(found.handedBack, "no turn reads the message");
    else await sendEvents(stage, found, open, left, after);
  });
}

/** Stop the turn of a response, also one that waits for a person, and send the response with its end. */
async function cancel(call: Call): Promise<void> {
  const [stage, found] = await find(call);
  const state = readResponse(found);
  const { open, turnId } = found.past.state;
  if (!isOver(state) || (open && turnId === found.turn)) await stage.send((session: Session) => session.stop());
  if (isOver(state)) sendJson(call.response, currentResponse(state), 200);
  // A stop needs none of the streams, which may all be in use.
  else await call.hold(async (_, left) => sendJson(call.response, await waitFor(stage, found, left), 200));
}

/** Redirect to a short-lived address of a file of a response. */
async function file(call: Call): Promise<void> {
  const { conversation, name } = readItemId("file", call.name);
  const { url } = await call.stage(conversation).link(name);
  call.response.writeHead(302, { Location: url, "Cache-Control": "no-store" }).end();
}

async function find(call: Call): Promise<readonly [Stage, Found]> {
  const name = readResponseId(call.name);
  const stage = call.stage(name.conversation);
  const found = await findResponse(stage, name);
  if (!found) throw new ClientError("not_found", "the newest turns of the conversation have no such response");
  return [stage, found];
}

/** Return the conversation of a request, "" for a new one. Throws ClientError `not_found`. */
function conversationOf({ previous, conversation, input }: Asked, headers: IncomingHttpHeaders): string {
  if (previous) return readResponseId(previous).conversation;
  if (input.approval) return readItemId("mcpr", input.approval.request).conversation;
  return (
    conversation ||
    CONVERSATION_HEADERS.map((name) => headers[name])
      .find(Boolean)
      ?.toString() ||
    ""
  );
}

/** Return the id of a request: the same for one that is repeated with its `Idempotency-Key`. */
function idOf(headers: IncomingHttpHeaders): string {
  const key = headers["idempotency-key"]?.toString();
  return key ? createHash("sha256").update(key).digest("hex").slice(0, 32) : randomUUID().replaceAll("-", "");
}

async function beginResponse(stage: Stage, asked: Asked, name: ResponseName): Promise<Begun> {
  const { input, previous, metadata, background, leftOut } = asked;
  const past = await stage.readTurns(1);
  const facts = (given: ResponseName, request: ClientEvent["data"] | null): ResponseFacts => {
    const createdAt = Math.floor(Date.now() / 1000);
    return { name: given, createdAt, previous: previous || null, metadata, background, leftOut, request };
  };
  if (input.approval) {
    const { name: id } = readItemId("mcpr", input.approval.request);
    const [following, { data }] = followAnswer(stage, past, id, input.approval);
    return { facts: facts({ ...name, after: "answer", id }, data), following };
  }
  const text = composeMessage(input, past === null);
  const uploads = await Promise.all(input.uploads.map(({ file, filename }) => stage.upload(file, filename)));
  const send = (session: Session) => session.say(text, { messageId: name.id, uploads });
  return { facts: facts(name, null), following: { ...followIn(stage, past, name.id, text, send), ...joining(stage) } };
}

/** Return the whole response. Throws Refusal for an error of the stage, and if the server ends. */
async function waitFor(stage: Stage, begun: Begun, left: AbortSignal): Promise<Resource> {
  let whole: Resource | null = null;
  await readEvents(stage, begun, left, (event) => {
    if (event.type === "error") throw refusalIn(event);
    if (LAST.has(event.type)) whole = event.response as Resource;
  });
  if (!whole) throw new Refusal(503, "ending", "This server ends.", { "Retry-After": "5" });
  return whole;
}

/** Send the events after a sequence number. What the stage refuses before them is thrown as Refusal. */
async function sendEvents(stage: Stage, begun: Begun, open: Open, left: AbortSignal, after = -1): Promise<void> {
  let stream: EventStream | null = null;
  let isLast = false;
  const start = (): EventStream => {
    if (stream) return stream;
    stream = open();
    for (const event of begin(begun.facts)[1]) if (event.sequence_number > after) stream.send(event, event.type);
    return stream;
  };
  const onSent = () => void start();
  if (!begun.following.send) start();
  await readEvents(stage, { ...begun, following: { ...begun.following, onSent } }, left, (event) => {
    if (event.type === "error" && !stream) throw refusalIn(event);
    isLast = LAST.has(event.type);
    const rest = restOf(event, after);
    return rest ? start().send(rest, rest.type) : undefined;
  });
  if (!stream) throw new Refusal(503, "ending", "This server ends.", { "Retry-After": "5" });
  (stream as EventStream).end(isLast ? "[DONE]" : "");
}

/** Read the events of a turn up to the last one of its response. */
async function readEvents(
  stage: Stage,
  { facts, following }: Begun,
  left: AbortSignal,
  take: (event: ResponseEvent) => Promise<void> | undefined | void,
): Promise<void> {
  const over = new AbortController();
  const events = streamTurn(stage, openResponses(facts), { ...following, waitingMax: WAITING_MAX });
  const takeOne = (event: ResponseEvent) => {
    if (LAST.has(event.type)) over.abort();
    return take(event) ?? undefined;
  };
  await handOn(events, takeOne, AbortSignal.any([left, over.signal]));
}

function refusalIn({ code, message }: ResponseEvent): ClientError {
  return new ClientError(String(code), String(message));
}
