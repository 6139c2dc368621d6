/** A server of doors at a recorded story, and clients of the published packages over real connections. */

import { type Event, HttpAgent, type Message, type RunAgentInput } from "@ag-ui/client";
import { DefaultChatTransport, type UIMessage, type UIMessageChunk } from "ai";
import { DoorServer, type ServeOptions } from "../../packages/serve/server.ts";
import type { Frame } from "../../src/client/index.ts";
import { StoryStage } from "./story_stage.ts";

/** The network: a story takes the place of the stage's addresses only. */
const network = globalThis.fetch;

export const TOKEN = { Authorization: "Bearer a.b.c" };

export class Served {
  readonly stage: StoryStage;
  readonly #options: ServeOptions;
  #server: DoorServer;
  url = "";

  private constructor(frames: readonly Frame[], at: number, options: Partial<ServeOptions>) {
    this.stage = new StoryStage(frames, at);
    const { url } = this.stage;
    const mcp = { issuer: "https://issuer.example.com", mcpAnswers: [], version: "0" };
    const own = { url, host: "127.0.0.1", port: 0, streams: 8, origins: [], beatS: 600, unreadS: 600 };
    this.#options = { ...own, ...mcp, ...options };
    this.#server = new DoorServer(this.#options);
  }

  /** Serve a story, of which the first `at` frames were sent before. */
  static async at(frames: readonly Frame[], at = 0, options: Partial<ServeOptions> = {}): Promise<Served> {
    const served = new Served(frames, at, options);
    served.url = await served.#server.listen();
    return served;
  }

  /** End the server, and continue at another one. */
  async replace(): Promise<void> {
    const ended = this.#server;
    this.#server = new DoorServer(this.#options);
    this.url = await this.#server.listen();
    await ended.end();
  }

  /** The network, for a client that is given its own. */
  get network(): typeof fetch {
    return network;
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return network(`${this.url}${path}`, { ...init, headers: { ...TOKEN, ...init.headers } });
  }

  post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
    return this.fetch(path, { method: "POST", body: JSON.stringify(body), ...init });
  }

  agent(messages: readonly Message[] = [{ id: "m1", role: "user", content: "go" }]): ServedAgent {
    return new ServedAgent(`${this.url}/agui`, this.stage.conversation, messages);
  }

  /** The transport of a page that has the message of turn `partial` in part. */
  transport(partial = ""): DefaultChatTransport<UIMessage> {
    const api = `${this.url}/chat`;
    return new DefaultChatTransport({
      api,
      headers: TOKEN,
      fetch: network,
      prepareReconnectToStreamRequest: ({ id }) => ({ api: `${api}/${id}/stream?turn=${partial}`, headers: TOKEN }),
    });
  }

  end(): Promise<void> {
    return this.#server.end();
  }
}

/** The agent of docs/how-to/serve.md. */
export class ServedAgent extends HttpAgent {
  readonly events: Event[] = [];

  constructor(url: string, threadId: string, initialMessages: readonly Message[]) {
    super({ url, threadId, initialMessages: [...initialMessages], headers: TOKEN, fetch: network });
    this.subscribe({ onEvent: ({ event }) => void this.events.push(event as Event) });
  }

  protected override connect(input: RunAgentInput) {
    const agent = this.clone();
    agent.abortController = this.abortController = new AbortController();
    agent.url += "/connect";
    return agent.run(input);
  }
}

export async function readAll(stream: ReadableStream<UIMessageChunk> | null): Promise<UIMessageChunk[]> {
  const chunks: UIMessageChunk[] = [];
  for await (const chunk of (stream ?? []) as unknown as AsyncIterable<UIMessageChunk>) chunks.push(chunk);
  return chunks;
}
