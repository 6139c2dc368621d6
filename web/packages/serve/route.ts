/** The addresses of a door: each is a row of its module, which the server adds to its own. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Stage } from "../../src/door/stage.ts";
import type { EventStream } from "./event_stream.ts";
import { unauthorized } from "./refusal.ts";

/** Begin the stream of a response. */
export type Open = (headers?: Readonly<Record<string, string>>) => EventStream;

/** A request, and what its answer needs of the server. */
export interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  /** The first group of the address: a conversation. */
  readonly name: string;
  /** Return the stage for the user of the request; a `bundle` precedes that of the address. Throws Refusal without a token. */
  stage(conversation: string, bundle?: string): Stage;
  /**
   * Hold one of the streams while `run` answers. Throws Refusal if all are in use. `left` aborts when the client has left,
   * or with the reason `ENDING`.
   */
  hold(run: (open: Open, left: AbortSignal) => Promise<void>): Promise<void>;
}

/** Why a stream is cut when the server ends: its client continues at another one. */
export const ENDING = "ending";

export type Route = readonly [method: string, path: RegExp, answer: (call: Call) => unknown];

/** Stop the open turn, also one that waits for a person. */
export async function stop(call: Call): Promise<void> {
  await call.stage(call.name).send((session) => session.stop());
  call.response.writeHead(204).end();
}

/** Return the token of a request. Throws Refusal without one. */
export function bearerIn({ headers }: IncomingMessage): string {
  const [, token = ""] = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? "") ?? [];
  if (!token) throw unauthorized("A bearer token is missing.");
  return token;
}

export function sendJson(response: ServerResponse, body: unknown, status: number): void {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  response.end(JSON.stringify(body));
}
