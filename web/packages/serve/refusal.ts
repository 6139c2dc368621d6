/** Refusals of a request over HTTP: problem details with a code, as the stage's own API has them. */

import type { ServerResponse } from "node:http";

/** A request that is refused before anything is streamed. `code` is stable, `message` is for people. */
export class Refusal extends Error {
  override readonly name = "Refusal";

  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** Return the refusal of a request whose token is missing or not accepted. */
export function unauthorized(message: string): Refusal {
  return new Refusal(401, "unauthorized", message, { "WWW-Authenticate": "Bearer" });
}

/** Return the refusal for an error of the stage or of a door; null for an error that is a mistake of ours. */
export function refusalOf(error: unknown): Refusal | null {
  if (error instanceof Refusal) return error;
  const { code, status, message = "" } = error as { code?: unknown; status?: unknown; message?: string };
  if (typeof code !== "string") return null;
  // A gateway answers 403 for a token that its authorizer refuses.
  if (code === "unauthorized") return unauthorized("The stage refuses the token.");
  // No answer of the stage has status 0; an error of a door has none.
  if (typeof status !== "number") return new Refusal(400, code, message);
  return new Refusal(status === 0 ? 502 : status, code, message);
}

export function refuse(response: ServerResponse, { status, code, message, headers }: Refusal): void {
  const body = JSON.stringify({ type: "about:blank", title: code, status, code, detail: message });
  response.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
  response.end(body);
}
