/** Outgoing messages: what a client sends, and its request on the websocket. */

import { countUtf8Bytes } from "./characters.ts";
import { ClientError } from "./failure.ts";
import { MESSAGE_MAX_BYTES } from "./frames.ts";

export type Reaction = "ok" | "not_ok" | "neutral";
export type Verdict = "approve" | "deny" | "edit";

/**
 * A message or event, sent under one message id until it is answered. Without a `kind` it is a message.
 *
 * With a `verdict` it answers whether the call `callId` may run. If it `rates`, it says `reaction` and `text` about a turn.
 */
export interface Said {
  readonly text: string;
  readonly kind: string;
  /** An event's fields beside its text; the parameters of an edited call. */
  readonly payload: Readonly<Record<string, unknown>>;
  /** Null for the default of the kind. */
  readonly reactive: boolean | null;
  /** Ids of files that come with it. */
  readonly uploads: readonly string[];
  /** The user's, a name of the IANA database, or "". */
  readonly timezone: string;
  /** The bundle that the conversation is to have, or "". */
  readonly bundle: string;
  readonly verdict: "" | Verdict;
  readonly callId: string;
  readonly rates: boolean;
  /** Null takes the feedback back. */
  readonly reaction: Reaction | null;
  /** The turn that is rated, "" for the newest that has ended. */
  readonly turn: string;
}

export type Request = Readonly<Record<string, unknown>>;

const NOTHING: Said = {
  text: "",
  kind: "",
  payload: {},
  reactive: null,
  uploads: [],
  timezone: "",
  bundle: "",
  verdict: "",
  callId: "",
  rates: false,
  reaction: null,
  turn: "",
};

/** Return a message with these fields. */
export function saying(fields: Partial<Said>): Said {
  return { ...NOTHING, ...fields };
}

/** The event that ends the open turn. */
export const STOPPING: Said = saying({ kind: "stop" });

/** Return the event that steers the open turn. */
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
