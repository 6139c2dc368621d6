/**
 * The server of doors: streams conversations of one stage to clients of AG-UI, the AI SDK, Open Responses and MCP.
 *
 * It has no rights and no state of its own: each request has its user's token, and the stage decides. A connection that
 * is closed stops nothing; a stop is a request.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { part } from "../../src/api/transport.ts";
import { Stage } from "../../src/door/stage.ts";
import { AG_UI } from "./ag_ui_door.ts";
import { AI_SDK } from "./ai_sdk_door.ts";
import { EventStream } from "./event_stream.ts";
import { type McpOptions, mcpRoutes } from "./mcp/mcp_door.ts";
import { Refusal, refusalOf, refuse } from "./refusal.ts";
import { RESPONSES } from "./responses/responses_door.ts";
import { bearerIn, type Call, ENDING, type Route, sendJson } from "./route.ts";

export interface ServeOptions extends McpOptions {
  /** The address of the stage's HTTP API. */
  readonly url: string;
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** How many streams may be open at once. */
  readonly streams: number;
  /** Seconds between two signs of life on a silent stream. */
  readonly beatS: number;
  /** Seconds after which a client that leaves its answer unread is disconnected. */
  readonly unreadS: number;
}

/** Connections without a stream: health checks, requests to stop, refusals. */
const OTHERS_MAX = 64;
/** How long requests may take to end: less than the ten seconds after which Docker kills a container. */
const END_S = 5;

export class DoorServer {
  readonly #options: ServeOptions;
  readonly #server: Server;
  readonly #streams = new Map<AbortController, EventStream | null>();
  readonly #beats: NodeJS.Timeout;
  readonly #routes: readonly Route[];
  #isEnding = false;
  /** How many requests have no whole answer yet. */
  #answering = 0;

  constructor(options: ServeOptions) {
    this.#options = options;
    const health: Route = ["GET", /^\/health$/, ({ response }) => this.#health(response)];
    this.#routes = [health, ...AG_UI, ...AI_SDK, ...RESPONSES, ...mcpRoutes(options)];
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.maxConnections = options.streams + OTHERS_MAX;
    this.#server.headersTimeout = 10_000;
    this.#server.requestTimeout = 60_000;
    this.#beats = setInterval(() => {
      for (const stream of this.#streams.values()) stream?.beat();
    }, options.beatS * 1000);
  }

  /** Listen, and return the address. Rejects if the port is taken. */
  listen(): Promise<string> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, () => {
        const { port: bound } = this.#server.address() as AddressInfo;
        resolve(`http://${host.includes(":") ? `[${host}]` : host}:${bound}`);
      });
    });
  }

  /** Accept nothing more, and end every stream in the middle: its client resumes at another server. */
  async end(): Promise<void> {
    this.#isEnding = true;
    clearInterval(this.#beats);
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const left of this.#streams.keys()) left.abort(ENDING);
    // A connection whose last answer ends now would wait for another request, and one that a client opened in advance
    // for its first: Node does not count that one as idle.
    const rest = setInterval(() => this.#answering || this.#server.closeAllConnections(), 10);
    const late = setTimeout(() => this.#server.closeAllConnections(), END_S * 1000);
    await closed;
    clearInterval(rest);
    clearTimeout(late);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#answering += 1;
    response.once("close", () => {
      this.#answering -= 1;
    });
    // A client that never reads would hold its stream for ever. While nothing is sent, it has read everything.
    response.setTimeout(this.#options.unreadS * 1000, () => {
      if (response.socket?.writableLength) response.destroy();
    });
    try {
      if (this.#isEnding) response.setHeader("Connection", "close");
      if (this.#allow(request, response)) return;
      await this.#route(request, response);
    } catch (error) {
      const refusal = refusalOf(error);
      if (!refusal) console.error(JSON.stringify({ level: "error", event: "failed", error: String(error) }));
      if (response.headersSent) response.destroy();
      else refuse(response, refusal ?? new Refusal(500, "failed", "This server made a mistake."));
    }
  }

  /** Permit the listed origins to read the answer; return true if this answers a preflight. */
  #allow({ method, headers: { origin = "" } }: IncomingMessage, response: ServerResponse): boolean {
    if (!this.#options.origins.includes(origin)) return false;
    response.setHeader("Access-Control-Allow-Origin", origin);
    response.setHeader("Access-Control-Expose-Headers", "WWW-Authenticate");
    response.setHeader("Vary", "Origin");
    if (method !== "OPTIONS") return false;
    response.setHeader("Access-Control-Allow-Headers", ALLOWED_HEADERS);
    response.setHeader("Access-Control-Allow-Methods", "GET, POST");
    response.setHeader("Access-Control-Max-Age", "600");
    response.writeHead(204).end();
    return true;
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://server");
    for (const [method, path, answer] of this.#routes) {
      const found = path.exec(url.pathname);
      if (!found || request.method !== method) continue;
      await answer({
        request,
        response,
        url,
        name: nameIn(found[1]),
        stage: (conversation, bundle = "") => this.#stage(request, url, conversation, bundle),
        hold: (run) => this.#hold(response, run),
      });
      return;
    }
    const methods = this.#routes.filter(([, path]) => path.test(url.pathname)).map(([method]) => method);
    if (methods.length) throw new Refusal(405, "method_not_allowed", "Not this method.", { Allow: methods.join(", ") });
    throw new Refusal(404, "not_found", "No such address.");
  }

  #health(response: ServerResponse): void {
    const body = { status: this.#isEnding ? "ending" : "ok", streams: this.#streams.size, max: this.#options.streams };
    sendJson(response, body, this.#isEnding ? 503 : 200);
  }

  /** Return the stage for the user of a request. Throws Refusal without a token. */
  #stage(request: IncomingMessage, url: URL, conversation: string, given: string): Stage {
    const token = bearerIn(request);
    const bundle = given || (url.searchParams.get("bundle") ?? "");
    const timezone = url.searchParams.get("timezone") ?? "UTC";
    return new Stage({
      url: this.#options.url,
      token,
      conversation: part(conversation) && conversation,
      bundle,
      timezone,
    });
  }

  /** Hold one of the streams while `run` answers. Throws Refusal if all are in use. */
  async #hold(response: ServerResponse, run: Parameters<Call["hold"]>[0]): Promise<void> {
    if (this.#isEnding) throw new Refusal(503, "ending", "This server ends.", LATER);
    if (this.#streams.size >= this.#options.streams) {
      throw new Refusal(503, "too_many_streams", "This server has no more streams.", LATER);
    }
    const left = new AbortController();
    this.#streams.set(left, null);
    response.once("close", () => left.abort());
    try {
      await run((headers) => {
        const stream = new EventStream(response, left.signal, headers);
        this.#streams.set(left, stream);
        return stream;
      }, left.signal);
    } finally {
      this.#streams.delete(left);
    }
  }
}

const ALLOWED_HEADERS = "Authorization, Content-Type, Mcp-Protocol-Version, Mcp-Method, Mcp-Name";
const LATER = { "Retry-After": "5" };

/** Return the conversation of an address, "" for none. Throws Refusal. */
function nameIn(text = ""): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Refusal(404, "not_found", "No such address.");
  }
}
