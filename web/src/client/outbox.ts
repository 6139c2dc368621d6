import type { Clock } from "./clock.ts";
import type { ErrorFrame } from "./frames.ts";
import type { Pace } from "./pace.ts";
import { errorFrame } from "./wire.ts";

interface Waiting {
  dueMs: number;
  /** Tries on the current connection. */
  tries: number;
  /** Connections that broke while this message was unanswered. */
  connections: number;
  /** The server refuses the message before this time. */
  notBeforeMs: number;
  refusal: ErrorFrame | null;
}

/** Due times, tries and refusals of unanswered messages, by message id. */
export class Outbox {
  readonly #clock: Clock;
  readonly #pace: Pace;
  readonly #waiting = new Map<string, Waiting>();

  constructor(clock: Clock, pace: Pace) {
    this.#clock = clock;
    this.#pace = pace;
  }

  /** When the next message is due to be sent again or given up; infinity if there is none. */
  get dueMs(): number {
    return Math.min(...[...this.#waiting.values()].map((one) => one.dueMs));
  }

  /** Return the ids of messages to send again or give up now. */
  due(): readonly string[] {
    const nowMs = this.#clock.nowMs();
    return [...this.#waiting].filter(([, one]) => nowMs >= one.dueMs).map(([messageId]) => messageId);
  }

  /** Return true if a message is out of tries on this connection, or out of connections. */
  isSpent(messageId: string): boolean {
    const one = this.#waiting.get(messageId);
    return one !== undefined && (one.tries >= this.#pace.tries || one.connections >= this.#pace.connections);
  }

  /** Record that a message is sent now. */
  note(messageId: string): void {
    const dueMs = this.#clock.nowMs() + this.#pace.answerS * 1000;
    const one = this.#waiting.get(messageId);
    if (one) {
      one.tries += 1;
      one.dueMs = dueMs;
    } else {
      this.#waiting.set(messageId, { dueMs, tries: 1, connections: 0, notBeforeMs: 0, refusal: null });
    }
  }

  /** Delay a message that the server refuses for now, at least for as long as the server requests. */
  refuse(frame: ErrorFrame): void {
    const one = this.#waiting.get(frame.message_id);
    if (!one) return;
    one.refusal = frame;
    one.notBeforeMs = this.#clock.nowMs() + frame.retry_after_s * 1000;
    this.#putOff(one);
  }

  /** Return the reason for giving up a message: the server's last refusal, or `no_answer`. */
  lastRefusal(conversation: string, messageId: string): ErrorFrame {
    return this.#waiting.get(messageId)?.refusal ?? noAnswer(conversation, messageId);
  }

  /** Delay every message, because an error did not name its message. */
  putOffAll(): void {
    for (const one of this.#waiting.values()) this.#putOff(one);
  }

  /**
   * Make every message due now, or at the time that the server requested.
   *
   * The broken connection counts; the tries on it do not.
   */
  resendAll(): void {
    for (const one of this.#waiting.values()) {
      one.tries = 0;
      one.connections += 1;
      plan(one, this.#clock.nowMs());
    }
  }

  /** Forget a message that is answered or given up. */
  settle(messageId: string): void {
    this.#waiting.delete(messageId);
  }

  /** Delay a message, longer each time: the server is busy. */
  #putOff(one: Waiting): void {
    const waitS = this.#pace.resumeEveryS * 2 ** (Math.max(one.tries, 1) - 1);
    plan(one, this.#clock.nowMs() + waitS * 1000);
  }
}

function plan(one: Waiting, atMs: number): void {
  one.dueMs = Math.max(atMs, one.notBeforeMs);
}

/** Return the error frame for a server that did not answer. */
export function noAnswer(conversation: string, messageId = ""): ErrorFrame {
  return errorFrame({ code: "no_answer", message: "the server did not answer", message_id: messageId, conversation });
}
