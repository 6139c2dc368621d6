/**
 * The Model Context Protocol over HTTP: `POST /mcp`, and where its clients sign in.
 *
 * Source: modelcontextprotocol.io, revision 2026-07-28, "Streamable HTTP" and "Authorization"; RFC 9728.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Refusal, refusalOf } from "../refusal.ts";
import { readJson } from "../request_body.ts";
import { bearerIn, type Call, ENDING, type Route, sendJson } from "../route.ts";
import type { Given, Handle } from "./mcp_server.ts";

export interface McpOptions {
  /** The issuer of the stage's tokens; "" if it is not known. */
  readonly issuer: string;
  /** The clients, as tokens name them, that may answer approvals. */
  readonly mcpAnswers: readonly string[];
  /** The origins of web pages that may call. */
  readonly origins: readonly string[];
  /** The version of this server. */
  readonly version: string;
}

const METADATA = "/.well-known/oauth-protected-resource";
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;

export function mcpRoutes(options: McpOptions): readonly Route[] {
  return [
    ["POST", /^\/mcp$/, (call) => answer(call, options)],
    ["GET", /^\/\.well-known\/oauth-protected-resource(?:\/mcp)?$/, (call) => describe(call, options)],
  ];
}

let handler: Promise<Handle> | null = null;

/** Load the protocol with the first request: it takes 13 MB, which a server without MCP clients does not need. */
function loadHandler(): Promise<Handle> {
  handler ??= import("./mcp_server.ts").then(({ makeHandler }) => makeHandler());
  return handler;
}

async function answer(call: Call, options: McpOptions): Promise<void> {
  const { request, response } = call;
  const { origin } = request.headers;
  // A page that reached this address by another name (DNS rebinding) has an origin of its own.
  if (origin !== undefined && !options.origins.includes(origin)) {
    throw new Refusal(403, "origin_not_allowed", "This site may not call.");
  }
  await call.hold(async (_, left) => {
    const token = await signIn(call, options);
    const parsedBody = await readMessage(call);
    if (parsedBody === undefined) return;
    const clientId = clientOf(token);
    const mayAnswer = options.mcpAnswers.includes(clientId);
    const given: Given = { version: options.version, mayAnswer, left, stage: (name) => call.stage(name) };
    // When this server ends, the answer says so: a client whose stream is cut would wait for it.
    const gone = abortUnless(ENDING, left);
    const authInfo = { token, clientId, scopes: [], extra: { given } };
    const asked = new Request(`${addressOf(request)}/mcp`, {
      method: "POST",
      headers: headersOf(request),
      signal: gone,
    });
    const handle = await loadHandler();
    await send(await handle(asked, { parsedBody, authInfo }), response, gone);
  });
}

/** Return the token of a request, which the stage has accepted. Throws Refusal: one without a sign-in names where the issuer is found. */
async function signIn(call: Call, { issuer }: McpOptions): Promise<string> {
  try {
    await call.stage("none").signIn();
    return bearerIn(call.request);
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal?.status !== 401 || !issuer) throw error;
    const challenge = `Bearer resource_metadata="${addressOf(call.request)}${METADATA}/mcp"`;
    throw new Refusal(401, refusal.code, refusal.message, { "WWW-Authenticate": challenge });
  }
}

/** Return the message of a body; a body that has none is answered, and undefined is returned. Throws Refusal. */
async function readMessage({ request, response }: Call): Promise<unknown> {
  const refuse = (code: number, message: string) => {
    const error = { code, message, data: { code: "bad_message" } };
    sendJson(response, { jsonrpc: "2.0", id: null, error }, 400);
  };
  try {
    const body = await readJson(request);
    if (!Array.isArray(body)) return body ?? null;
    refuse(INVALID_REQUEST, "A request is one message.");
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 400) throw error;
    refuse(PARSE_ERROR, error.message);
  }
  return undefined;
}

/** Describe where a client gets tokens for this server. */
function describe({ request, response }: Call, { issuer }: McpOptions): void {
  if (!issuer) throw new Refusal(404, "not_found", "The issuer is not known here.");
  const resource = `${addressOf(request)}/mcp`;
  const methods = { bearer_methods_supported: ["header"] };
  sendJson(response, { resource, authorization_servers: [issuer], ...methods, resource_name: "stepline" }, 200);
}

/** Return the application that a token names. The stage verifies the token, and reads the same claims. */
function clientOf(token: string): string {
  try {
    const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
    const name: unknown = claims.client_id === undefined ? claims.azp : claims.client_id;
    return typeof name === "string" ? name : "";
  } catch (error) {
    if (error instanceof SyntaxError) return "";
    throw error;
  }
}

/** Return the address that a client has used; a proxy that adds HTTPS says so. Throws Refusal. */
function addressOf({ headers }: IncomingMessage): string {
  const scheme = headers["x-forwarded-proto"] === "https" ? "https" : "http";
  const address = `${scheme}://${headers.host ?? ""}`;
  if (!URL.canParse(address)) throw new Refusal(400, "bad_message", "The header Host is not valid.");
  return new URL(address).origin;
}

/** Return a signal that aborts with another one, except for a reason. */
function abortUnless(reason: unknown, signal: AbortSignal): AbortSignal {
  const other = new AbortController();
  const pass = () => signal.reason === reason || other.abort(signal.reason);
  if (signal.aborted) pass();
  else signal.addEventListener("abort", pass, { once: true });
  return other.signal;
}

function headersOf({ headers }: IncomingMessage): Headers {
  return new Headers(
    Object.entries(headers).flatMap(([name, value]) => (typeof value === "string" ? [[name, value] as const] : [])),
  );
}

/** Send a response as it is made. */
async function send(made: Response, response: ServerResponse, gone: AbortSignal): Promise<void> {
  const plain = { "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no" };
  response.writeHead(made.status, { ...Object.fromEntries(made.headers), ...plain });
  response.flushHeaders();
  if (made.body) {
    await pipeline(Readable.fromWeb(made.body as never), response, { signal: gone }).catch((error: unknown) => {
      if (!gone.aborted) throw error;
    });
  } else response.end();
}
