/** Errors of requests, as clients of OpenAI read them. Source: openresponses.org/specification, "Errors". */

import type { ServerResponse } from "node:http";
import { type Refusal, refusalOf } from "../refusal.ts";
import type { Call } from "../route.ts";
import { BodyRefusal } from "./fields.ts";

/** The status of an error that a websocket reports without one. */
const STATUS: Readonly<Record<string, number>> = {
  not_found: 404,
  conversation_deleted: 404,
  message_too_large: 413,
  rate_limited: 429,
  limit_turns: 429,
  limit_tokens: 429,
  limit_usd: 429,
  queue_full: 429,
  busy: 503,
  dependency: 503,
};

/** Return a handler whose refusals have the shape of the protocol. */
export function refusing(answer: (call: Call) => Promise<void>): (call: Call) => Promise<void> {
  return async (call) => {
    try {
      await answer(call);
    } catch (error) {
      const refusal = refusalOf(error);
      if (!refusal || call.response.headersSent) throw error;
      refuseAsError(call.response, refusal);
    }
  };
}

function refuseAsError(response: ServerResponse, refusal: Refusal): void {
  const { code, message, headers } = refusal;
  const status = refusal.status === 400 ? (STATUS[code] ?? 400) : refusal.status;
  const param = refusal instanceof BodyRefusal ? refusal.param : null;
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify({ error: { message, type: typeOf(status), code, param } }));
}

function typeOf(status: number): string {
  if (status === 404) return "not_found";
  if (status === 429) return "too_many_requests";
  return status >= 500 ? "server_error" : "invalid_request";
}
