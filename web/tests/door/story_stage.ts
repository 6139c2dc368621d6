/** A stage that plays one recorded story: its HTTP API by `fetch`, its websocket by `WebSocket`, frame by frame. */

import { vi } from "vitest";
import {
  BEYOND_END,
  type ClientState,
  type EventFrame,
  emptyState,
  type Frame,
  foldFrames,
  laneText,
} from "../../src/client/index.ts";
import { eventually } from "../eventually.ts";
import { resumed } from "./stories.ts";

export type Sent = Readonly<Record<string, unknown>>;

export class StoryStage {
  readonly url = "https://api.example.com";
  readonly conversation = "c-1";
  /** Every request that arrived on a websocket. */
  readonly sent: Sent[] = [];
  readonly posted: string[] = [];
  /** The files of the list, and the content of each. */
  files: readonly object[] = [];
  file = { mime: "text/markdown", size_bytes: 5, bytes: [...Buffer.from("# Über")] };
  /** The status with which the gateway refuses every token; 0 while it accepts them. */
  gatewayRefuses = 0;
  #frames: readonly Frame[];
  readonly #sockets = new Set<StorySocket>();
  /** The refusals to come, by action. */
  readonly #refusals = new Map<string, { code: string; message: string }>();
  #at: number;
  #beforeVerdict = 1;

  /** The first `at` frames were sent before anyone listens. */
  constructor(frames: readonly Frame[], at = 0) {
    this.#frames = frames;
    this.#at = at;
    vi.stubGlobal("fetch", (input: string | URL, init: RequestInit = {}) => this.#answer(String(input), init));
    vi.stubGlobal("WebSocket", socketOf(this));
  }

  get listeners(): number {
    return this.#sockets.size;
  }

  refuse(action: string, code: string): void {
    this.#refusals.set(action, { code, message: `refused: ${code}` });
  }

  /** Give a message of the story the id that a client has drawn. */
  rename(from: string, to: string): void {
    this.#frames = this.#frames.map((frame) => {
      if (frame.frame !== "events") return frame;
      const events = frame.events.map((event) =>
        event.data.message_id === from ? { ...event, data: { ...event.data, message_id: to } } : event,
      );
      return { ...frame, events };
    });
  }

  asked(action: string): Sent[] {
    return this.sent.filter((request) => request.action === action);
  }

  /** Send frames up to number `upTo`, as soon as a client listens. */
  async play(upTo = this.#frames.length): Promise<void> {
    await eventually(() => {
      if (![...this.#sockets].some((socket) => socket.listens)) throw new Error("no client listens");
    });
    for (; this.#at < upTo; this.#at += 1) {
      for (const socket of this.#sockets) if (socket.listens) socket.receive(this.#frames[this.#at] as Frame);
      await Promise.resolve();
    }
  }

  /** Send the frames before the first event of this type, and that event's frame. */
  playPast(type: string): Promise<void> {
    const found = this.#frames.findIndex(
      (frame, i) => i >= this.#at && frame.frame === "events" && frame.events.some((event) => event.type === type),
    );
    return this.play(found + 1);
  }

  /** Break every connection. */
  cut(): void {
    for (const socket of [...this.#sockets]) socket.break();
  }

  join(socket: StorySocket): void {
    this.#sockets.add(socket);
  }

  leave(socket: StorySocket): void {
    this.#sockets.delete(socket);
  }

  take(socket: StorySocket, request: Sent): void {
    this.sent.push(request);
    const { action, message_id: messageId = "", conversation } = request;
    const refusal = this.#refusals.get(String(action));
    if (refusal) {
      socket.receive({ frame: "error", conversation, message_id: messageId, retryable: false, ...refusal });
    } else if (action === "resume" && Number(request.after) > this.#state.cursor) {
      socket.receive({ frame: "error", conversation, message_id: "", code: BEYOND_END, message: "", retryable: false });
    } else if (action === "resume") {
      const state = stateOf(request);
      socket.listens = true;
      for (const frame of resumed(this.#frames.slice(0, this.#at), this.#at, state)) socket.receive(frame);
    } else if (action === "ping") {
      socket.receive({ frame: "pong", conversation, n: this.#state.cursor });
    } else if (messageId) {
      socket.listens = true;
      socket.receive({ frame: "ack", message_id: messageId, conversation, n: this.#nOf(String(messageId)), kind: "" });
    }
  }

  get #state(): ClientState {
    return foldFrames(emptyState("c-1"), this.#frames.slice(0, this.#at))[0];
  }

  /** The batch of a message: of its event in the story, else of the next event. */
  #nOf(messageId: string): number {
    const later = this.#frames.slice(this.#at).filter((frame): frame is EventFrame => frame.frame === "events");
    const own = later.find(({ events }) => events.some(({ data }) => data.message_id === messageId));
    return (own ?? later[0])?.n ?? this.#state.cursor;
  }

  async #answer(address: string, init: RequestInit): Promise<Response> {
    const path = address.replace(this.url, "");
    this.posted.push(`${init.method} ${path.split("?")[0]}`);
    if (this.gatewayRefuses) return json({ message: "Forbidden" }, this.gatewayRefuses);
    if (path === "/v1/limits") return json({ tenant: "t", project: "p", user: "ada", role: "user", scopes: [] });
    if (path === "/v1/socket-tickets") return json({ ticket: "t", expires_in_s: 60, url: "wss://live.example.com/" });
    if (path.includes("/events")) {
      const events = this.#frames.slice(0, this.#at).filter((frame) => frame.frame === "events");
      if (events.length === 0) return json({ status: 404, code: "not_found", detail: "no such conversation" }, 404);
      return json({ events, first_n: 1, more: false, turns_before: 0 });
    }
    if (path.endsWith("/uploads")) {
      const body = JSON.parse(String(init.body));
      if (body.filename.endsWith(".mp3")) {
        return json({ status: 400, code: "type_not_allowed", detail: "not this type" }, 400);
      }
      return json({
        upload: `up_${body.filename}`,
        url: `${this.url}/bucket`,
        fields: { key: "k" },
        expires_in_s: 600,
      });
    }
    if (path.includes("/uploads/")) {
      this.#beforeVerdict -= 1;
      return json({ state: this.#beforeVerdict < 0 ? "ready" : "checking" });
    }
    if (path.endsWith("/file-links")) {
      const { path: named } = JSON.parse(String(init.body));
      return json({ url: `https://files.example.com/${named}`, expires_in_s: 600, ...this.file, sha256: "" });
    }
    if (path.startsWith("https://files.example.com/")) return new Response(new Uint8Array(this.file.bytes));
    if (path.includes("/files")) return json({ items: this.files, next: "" });
    return new Response(null, { status: 201 });
  }
}

/** A websocket to the stage. */
class StorySocket {
  static readonly OPEN = 1;
  readyState = 0;
  listens = false;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  readonly #stage: StoryStage;

  constructor(
    stage: StoryStage,
    readonly address: string,
  ) {
    this.#stage = stage;
    queueMicrotask(() => {
      this.readyState = 1;
      stage.join(this);
      this.onopen?.();
    });
  }

  send(text: string): void {
    const request = JSON.parse(text);
    queueMicrotask(() => this.#stage.take(this, request));
  }

  receive(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  close(): void {
    this.readyState = 3;
    this.#stage.leave(this);
  }

  break(): void {
    this.close();
    this.onclose?.({ code: 1006, reason: "" });
  }
}

/** Return the class of websockets to a stage. */
function socketOf(stage: StoryStage): new (address: string) => StorySocket {
  return class extends StorySocket {
    constructor(address: string) {
      super(stage, address);
    }
  };
}

/** Return the state of a client by its request to resume. */
function stateOf(request: Sent): ClientState {
  const state = emptyState("c-1", Number(request.after));
  const stream = request.stream as { claim: number; off: Record<string, number> } | undefined;
  if (!stream) return state;
  const lanes = new Map(
    Object.entries(stream.off).map(([name, end]) => [name, { base: 0, text: laneText(state, name), end, early: [] }]),
  );
  return { ...state, claim: stream.claim, lanes };
}

function json(body: object, status = 200): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
}
