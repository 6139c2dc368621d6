/** Scripted browser and server for tests of the page's frame: a clock, a dial, a storage of pages. */

import { ApiError } from "../../src/api/index.ts";
import type { DialHandlers } from "../../src/client/index.ts";
import type { Clock } from "../../src/ui/store/clock.ts";
import type { Services } from "../../src/ui/store/conversation.ts";

/** A clock that the test advances. */
export class ScriptedClock implements Clock {
  #nowMs: number;
  #timers: { dueMs: number; run: () => void }[] = [];

  constructor(nowMs = Date.parse("2026-11-25T09:00:00Z")) {
    this.#nowMs = nowMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { dueMs: this.#nowMs + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Let time pass; timers run in the order in which they are due. */
  pass(ms: number): void {
    const until = this.#nowMs + ms;
    for (;;) {
      const due = this.#timers.filter((timer) => timer.dueMs <= until).sort((a, b) => a.dueMs - b.dueMs)[0];
      if (!due) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.#nowMs = Math.max(this.#nowMs, due.dueMs);
      due.run();
    }
    this.#nowMs = until;
  }
}

/** Let settled promises continue. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

type Handlers = DialHandlers;
type Sent = Readonly<Record<string, unknown>>;

/** The server side of a socket: records the requests, and sends the frames of the test. */
export class ScriptedSocket {
  readonly sent: Sent[] = [];
  opened = 0;
  #handlers: Handlers | null = null;

  readonly dial = {
    open: (handlers: Handlers) => {
      this.#handlers = handlers;
      this.opened += 1;
      return {
        send: (text: string) => {
          this.sent.push(JSON.parse(text));
        },
        close: () => {
          this.#handlers = null;
        },
      };
    },
  };

  get isOpen(): boolean {
    return this.#handlers !== null;
  }

  accept(): void {
    this.#handlers?.open();
  }

  say(frame: { readonly frame: string } & Readonly<Record<string, unknown>>): void {
    this.#handlers?.message(JSON.stringify(frame));
  }

  break(): void {
    this.#handlers?.closed(1006, "");
  }

  /** Return the requests of an action. */
  asked(action: string): readonly Sent[] {
    return this.sent.filter((request) => request.action === action);
  }
}

/** The dependencies of a conversation, with nothing on the server yet. */
export function scriptedServices(socket: ScriptedSocket, more: Partial<Services> = {}): Services {
  const missing = () => Promise.reject(new ApiError({ status: 404, code: "not_found", detail: "" }));
  return {
    clock: new ScriptedClock(Date.now()),
    dial: socket.dial,
    credential: { expiresAtS: () => Number.POSITIVE_INFINITY, ticket: async () => "t" },
    timezone: "",
    frame: (run) => run(),
    api: { readEvents: missing, beginUpload: missing, getUpload: missing },
    measure: missing,
    post: missing,
    unreadN: () => 0,
    said: () => undefined,
    usageChanged: () => undefined,
    gone: () => undefined,
    onFeed: () => undefined,
    ...more,
  };
}

/** Refuse the message that was sent last. */
export function refusalOf(socket: ScriptedSocket, code: string, more: object = {}) {
  const messageId = String(socket.asked("send").at(-1)?.message_id);
  return { frame: "error" as const, code, message: "", message_id: messageId, conversation: "chat-one", ...more };
}

export const TURN = "turn_20261125T090000_ab12cd";
const TS = "2026-11-25T09:00:00.000Z";

interface Batch {
  readonly n: number;
  readonly claim?: number;
  readonly events: readonly Readonly<Record<string, unknown>>[];
}

/** Return a frame of one batch of `chat-one`. */
export function batch({ n, claim = 0, events }: Batch) {
  const whole = events.map((event) => ({ route: "chat_step", ts: TS, turn_id: TURN, ...event }));
  return { frame: "events" as const, conversation: "chat-one", n, prev: n - 1, claim, events: whole };
}

/** The first batch of a conversation: a prompt, and its turn. */
export function opening(messageId: string, text: string, n = 1) {
  return batch({
    n,
    claim: n,
    events: [
      { type: "chat.conversation.accepted", data: { message_id: messageId, kind: "prompt", text } },
      { type: "conv.status", data: { state: "in_progress", current_turn_id: TURN } },
      { type: "chat.start", status: "started", data: { turn_id: TURN, prompts: [n] } },
    ],
  });
}

/** The batch that ends a turn with an answer. */
export function ending(n: number, answer: string) {
  return batch({
    n,
    events: [
      { type: "chat.complete", data: { answer, reason: "complete" } },
      { type: "conv.status", data: { state: "idle", completion: "success" } },
    ],
  });
}
