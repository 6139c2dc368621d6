/** Outgoing messages, and their requests on the websocket. */

import { countUtf8Bytes } from "./characters.ts";
import { ClientError } from "./failure.ts";
import { MESSAGE_MAX_BYTES, NOTHING, type Said } from "./frames.ts";

export type Reaction = NonNullable<Said["reaction"]>;
export type Verdict = Exclude<Said["verdict"], "">;
export type Request = Readonly<Record<string, unknown>>;

/** Return a message with these fields. */
export function saying(fields: Partial<Said>): Said {
  return { ...NOTHING, ...fields };
}

/** The message that ends the open turn. */
export const STOPPING: Said = saying({ kind: "stop" });

/** Return the message that steers the open turn. */
export function steering(text: string): Said {
  return saying({ kind: "steer", text });
}

/** Return the request that sends `said`. */
export function renderRequest(conversation: string, messageId: string, said: Said): Request {
  const named = { conversation, message_id: messageId };
  if (said.verdict) return renderVerdict(said.verdict, named, said);
  if (said.rates) {
    return { action: "feedback", ...named, turn: said.turn, reaction: said.reaction, text: said.text };
  }
  const request = {
    ...named,
    ...(said.timezone && { timezone: said.timezone }),
    ...(said.bundle && { bundle: said.bundle }),
    ...(said.uploads.length && { uploads: said.uploads }),
  };
  if (!said.kind) return { action: "send", ...request, text: said.text };
  const payload = { ...said.payload, ...(said.text && { text: said.text }) };
  const reactive = said.reactive === null ? {} : { reactive: said.reactive };
  return { action: "event", ...request, kind: said.kind, payload, ...reactive };
}

/** Encode a request. Throws ClientError `message_too_large`. */
export function encodeRequest(request: Request, maxBytes = MESSAGE_MAX_BYTES): string {
  const body = JSON.stringify(request);
  const bytes = countUtf8Bytes(body);
  if (bytes > maxBytes) {
    throw new ClientError("message_too_large", `the message has ${bytes} bytes, at most ${maxBytes} can be sent`);
  }
  return body;
}

function renderVerdict(verdict: Verdict, named: Request, said: Said): Request {
  const request = { action: verdict, ...named, call_id: said.callId };
  if (verdict === "edit") return { ...request, params: said.payload };
  return verdict === "deny" ? { ...request, text: said.text } : request;
}
