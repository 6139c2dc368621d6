/** Messages on their way to the log: shown at once, and then their results. */

import type { Effect, ErrorFrame } from "../../client/index.ts";
import type { Message } from "../../thread/thread.ts";
import type { TakenFile } from "../attachments/attachments.ts";
import { LIMIT_CODES } from "../limits/limit_codes.ts";
import type { Clock } from "./clock.ts";
import type { ConversationState } from "./conversation.ts";
import type { ServerClock } from "./server_clock.ts";
import type { Store } from "./store.ts";

/** A shorter delay is not reported. */
const PATIENCE_MS = 20_000;

type Sent = Pick<Message, "messageId" | "kind" | "text" | "attachments">;

export class Sending {
  readonly #store: Store<ConversationState>;
  readonly #clock: Clock;
  readonly #serverClock: ServerClock;
  readonly #files = new Map<string, readonly TakenFile[]>();
  readonly #outcomes = new Map<string, (code: string) => void>();
  readonly #putOff = new Map<string, ErrorFrame>();
  #stop = "";

  constructor(store: Store<ConversationState>, clock: Clock, serverClock: ServerClock) {
    this.#store = store;
    this.#clock = clock;
    this.#serverClock = serverClock;
  }

  /** Show a message that was given to the session. */
  note(sent: Sent, files: readonly TakenFile[]): void {
    const state = sent.kind === "prompt" ? ({ is: "said" } as const) : ({ is: "waiting" } as const);
    const message: Message = { ...sent, n: 0, source: "", at: this.#serverClock.nowMs(), state };
    this.#files.set(sent.messageId, files);
    this.#store.update({ outbox: [...this.#store.value.outbox, message] });
    this.#clock.after(PATIENCE_MS, () => this.#sayTrying(sent.messageId));
  }

  noteStop(messageId: string): void {
    this.#stop = messageId;
    this.#store.update({ stopping: true });
  }

  /** Return the server's answer to a message: "" if it was accepted, else the code of its refusal. */
  outcomeOf(messageId: string): Promise<string> {
    return new Promise((resolve) => this.#outcomes.set(messageId, resolve));
  }

  /** Return the files of a message that this page has sent. */
  filesOf(messageId: string): readonly TakenFile[] {
    return this.#files.get(messageId) ?? [];
  }

  /** Hide a message. */
  discard(messageId: string): void {
    this.#drop(messageId);
    this.#store.update({ discarded: new Set(this.#store.value.discarded).add(messageId) });
  }

  apply(effect: Effect): void {
    if (effect.kind === "acknowledged") this.#acknowledge(effect.frame.message_id, effect.frame.n, effect.frame.kind);
    else if (effect.kind === "refused") this.#refuse(effect.frame);
    else if (effect.kind === "putOff") this.#delay(effect.frame);
    else if (effect.kind === "eventsApplied") {
      for (const event of effect.events) {
        if (event.type === "chat.conversation.accepted") this.#drop(String(event.data.message_id ?? ""));
      }
    } else if (effect.kind === "handedBack" && effect.messageId === this.#stop) this.#store.update({ stopping: false });
  }

  #acknowledge(messageId: string, n: number, kind: string): void {
    // A late verdict is acknowledged with the one that the log has instead.
    this.#settle(messageId, kind === "expired" ? "approval_expired" : "");
    if (n <= this.#store.value.thread.cursor) {
      this.#drop(messageId);
      return;
    }
    const outbox = this.#store.value.outbox.map((one) => (one.messageId === messageId ? { ...one, n } : one));
    this.#store.update({ outbox });
    this.#setProblem(messageId, null);
  }

  #refuse(frame: ErrorFrame): void {
    this.#settle(frame.message_id, frame.code);
    if (frame.message_id === this.#stop) this.#store.update({ stopping: false });
    if (!this.#isWaiting(frame.message_id)) return;
    this.#setProblem(frame.message_id, { code: frame.code, message: frame.message, trying: false });
    if (frame.code === "rate_limited") this.#block(frame.retry_after_s);
  }

  #delay(frame: ErrorFrame): void {
    this.#putOff.set(frame.message_id, frame);
    if (frame.code === "rate_limited") this.#block(frame.retry_after_s);
    else if (!LIMIT_CODES.has(frame.code)) return;
    this.#setProblem(frame.message_id, { code: frame.code, message: frame.message, trying: true });
  }

  #block(seconds: number): void {
    this.#store.update({ blockedUntil: this.#clock.nowMs() + seconds * 1000 });
  }

  #sayTrying(messageId: string): void {
    const message = this.#store.value.outbox.find((one) => one.messageId === messageId);
    if (!message || message.n > 0 || this.#store.value.problems.has(messageId)) return;
    const said = this.#putOff.get(messageId);
    this.#setProblem(messageId, { code: said?.code ?? "no_answer", message: said?.message ?? "", trying: true });
  }

  #setProblem(messageId: string, problem: { code: string; message: string; trying: boolean } | null): void {
    if (problem === null && !this.#store.value.problems.has(messageId)) return;
    const problems = new Map(this.#store.value.problems);
    if (problem) problems.set(messageId, problem);
    else problems.delete(messageId);
    this.#store.update({ problems });
  }

  #settle(messageId: string, code: string): void {
    this.#outcomes.get(messageId)?.(code);
    this.#outcomes.delete(messageId);
  }

  #isWaiting(messageId: string): boolean {
    return this.#store.value.outbox.some((one) => one.messageId === messageId);
  }

  #drop(messageId: string): void {
    this.#putOff.delete(messageId);
    this.#setProblem(messageId, null);
    if (this.#isWaiting(messageId)) {
      this.#store.update({ outbox: this.#store.value.outbox.filter((one) => one.messageId !== messageId) });
    }
  }
}
