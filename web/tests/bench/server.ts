/** The server side of a socket: sends the page the frames of a turn, one by one, as text. */

import type { Dial, DialHandlers } from "../../src/client/index.ts";

type Event = { readonly type: string; readonly status?: string; readonly data: Readonly<Record<string, unknown>> };

export class ScriptedServer {
  readonly conversation: string;
  readonly #startMs = Date.now();
  #handlers: DialHandlers | null = null;
  #n = 0;
  #claim = 0;
  #turn = 0;
  #text = "";
  #off = 0;

  constructor(conversation: string) {
    this.conversation = conversation;
  }

  readonly dial: Dial = {
    open: (handlers) => {
      this.#handlers = handlers;
      setTimeout(() => handlers.open(), 0);
      return { send: () => undefined, close: () => undefined };
    },
  };

  /** Begin a turn whose first round writes an answer. */
  open(prompt: string): void {
    this.#turn += 1;
    this.#batch([
      {
        type: "chat.conversation.accepted",
        data: { message_id: `m${this.#turn}`, kind: "prompt", text: prompt, source: "", attachments: [] },
      },
      { type: "conv.status", data: { state: "in_progress", current_turn_id: this.#turnId } },
      {
        type: "chat.start",
        status: "started",
        data: { turn_id: this.#turnId, prompts: [this.#n + 1], rounds: 15, max_tokens: 200_000 },
      },
    ]);
    this.#claim = this.#n;
    [this.#text, this.#off] = ["", 0];
    const facts = { marker: "answer", format: "markdown" };
    this.#delta("lanes", 0, `${JSON.stringify({ do: "open", lane: "answer.0", facts })}\n`);
  }

  /** A piece of the answer; pieces have only characters of the basic plane. */
  write(piece: string): void {
    this.#delta("answer.0", this.#off, piece);
    this.#text += piece;
    this.#off += piece.length;
  }

  /** The decision with the answer, and the end of the turn. */
  close(): void {
    const [claim, iteration] = [this.#claim, 0];
    this.#batch([
      {
        type: "solver.react.decision",
        data: { claim, iteration, action: "complete", accepted: true, notes: "", tools: [], bundle: [] },
      },
    ]);
    this.#batch([
      { type: "chat.conversation.turn.completed", data: { elapsed_ms: 2000 } },
      { type: "chat.complete", data: { answer: this.#text, reason: "complete" } },
      { type: "conv.status", data: { state: "idle", completion: "success" } },
    ]);
  }

  get #turnId(): string {
    return `turn_${this.#turn}`;
  }

  #batch(events: readonly Event[]): void {
    const ts = new Date(this.#startMs + this.#n * 1000).toISOString();
    const whole = events.map((event) => ({ route: "chat_step", ts, turn_id: this.#turnId, ...event }));
    this.#n += 1;
    this.#say({ frame: "events", n: this.#n, prev: this.#n - 1, claim: this.#claim, events: whole });
  }

  #delta(lane: string, off: number, text: string): void {
    this.#say({ frame: "delta", claim: this.#claim, lane, off, text });
  }

  #say(frame: Readonly<Record<string, unknown>>): void {
    this.#handlers?.message(JSON.stringify({ conversation: this.conversation, ...frame }));
  }
}
