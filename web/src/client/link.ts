/** Keeps one connection at a time. It is reopened when it breaks, and replaced before it gets too old. */

import { between, type Clock, type Random } from "./clock.ts";
import type { Failure } from "./failure.ts";
import { EXPIRED } from "./frames.ts";
import type { Pace } from "./pace.ts";

/**
 * Opens connections. Handlers are called after `open` has returned. After `closed` or `failed`, a connection calls no
 * more handlers.
 */
export interface Dial {
  open(handlers: DialHandlers): Connection;
}

export interface DialHandlers {
  open(): void;
  message(text: string): void;
  closed(code: number, reason: string): void;
  /** The connection did not open, or broke. With the code `unauthorized`, there is no retry. */
  failed(failure: Failure): void;
}

export interface Connection {
  send(text: string): void;
  close(): void;
}

/**
 * The connection's state, and since when. `lost` is reported once, however often the link retries. `refused`: the user
 * has to sign in. `closed`: this side closed it, or this client is too old.
 */
export interface LinkState {
  readonly is: "connecting" | "open" | "lost" | "refused" | "closed";
  readonly sinceMs: number;
}

/** One connection, from the moment of dialling. `connection` is null until the dial has returned it. */
interface Wire {
  readonly beganMs: number;
  connection: Connection | null;
}

export interface LinkHandlers {
  opened(): void;
  message(text: string): void;
  changed(state: LinkState): void;
  refused(failure: Failure): void;
  /** The time at which something is due has changed. */
  planned(): void;
}

export class Link {
  readonly #dial: Dial;
  readonly #clock: Clock;
  readonly #pace: Pace;
  readonly #random: Random;
  readonly #on: LinkHandlers;
  #wire: Wire | null = null;
  /** A connection that is being opened: the first one, the next one after a break, or a replacement for `#wire`. */
  #next: Wire | null = null;
  #breaks = 0;
  #retryDueMs = Number.POSITIVE_INFINITY;
  #replaceDueMs = Number.POSITIVE_INFINITY;
  /** When the connection was lost; null once another one has delivered a frame. */
  #lostMs: number | null = null;
  #state: LinkState;

  constructor(dial: Dial, clock: Clock, pace: Pace, random: Random, on: LinkHandlers) {
    this.#dial = dial;
    this.#clock = clock;
    this.#pace = pace;
    this.#random = random;
    this.#on = on;
    this.#state = { is: "closed", sinceMs: clock.nowMs() };
  }

  get state(): LinkState {
    return this.#state;
  }

  get isOpen(): boolean {
    return this.#wire !== null;
  }

  /** The time at which `runDue` has something to do. */
  get dueMs(): number {
    const openDueMs = this.#next ? this.#next.beganMs + this.#pace.openS * 1000 : Number.POSITIVE_INFINITY;
    return Math.min(this.#retryDueMs, this.#replaceDueMs, openDueMs);
  }

  /** Open the first connection, or a new one after a refusal or a close. */
  start(): void {
    if (this.#wire || this.#next || this.#state.is === "lost") return;
    this.#breaks = 0;
    this.#lostMs = null;
    this.#report("connecting");
    this.#connect();
  }

  /** Close the connection and do not reconnect. */
  close(): void {
    this.#end("closed");
  }

  /** Close the connection and do not reconnect before `start`: the user has to sign in again. */
  refuse(): void {
    this.#end("refused");
  }

  /** Treat the connection as broken. */
  drop(): void {
    const wire = this.#wire;
    if (!wire) return;
    this.#lose(wire);
    wire.connection?.close();
  }

  /** Send a text. Without a connection it is lost. */
  send(text: string): void {
    this.#wire?.connection?.send(text);
  }

  runDue(): void {
    const nowMs = this.#clock.nowMs();
    const next = this.#next;
    if (next && nowMs >= next.beganMs + this.#pace.openS * 1000) {
      next.connection?.close();
      this.#miss(next);
    }
    if (nowMs >= this.#retryDueMs || nowMs >= this.#replaceDueMs) this.#connect();
  }

  /** If the connection is lost, retry at once. A slow attempt is abandoned. */
  hurry(): void {
    if (this.#wire || this.#state.is !== "lost") return;
    const next = this.#next;
    if (next && this.#clock.nowMs() < next.beganMs + this.#pace.wakeAnswerS * 1000) return;
    this.#next = null;
    next?.connection?.close();
    this.#connect();
  }

  #connect(): void {
    this.#retryDueMs = this.#replaceDueMs = Number.POSITIVE_INFINITY;
    const wire: Wire = { beganMs: this.#clock.nowMs(), connection: null };
    this.#next = wire;
    wire.connection = this.#dial.open({
      open: () => this.#take(wire),
      message: (text) => {
        if (this.#wire !== wire) return;
        this.#breaks = 0;
        this.#lostMs = null;
        this.#on.message(text);
      },
      closed: () => this.#lose(wire),
      failed: (failure) => {
        if (this.#next === wire && EXPIRED.has(failure.code)) this.#refuse(failure);
        else this.#lose(wire);
      },
    });
  }

  /** Use a connection that has opened, then close the one it replaces. */
  #take(wire: Wire): void {
    if (this.#next !== wire) return;
    const old = this.#wire;
    this.#wire = wire;
    this.#next = null;
    old?.connection?.close();
    this.#retryDueMs = Number.POSITIVE_INFINITY;
    this.#replaceDueMs = this.#clock.nowMs() + between(this.#random, ...this.#pace.replaceS) * 1000;
    this.#report("open");
    this.#on.opened();
  }

  /** Continue after a connection has ended, intentionally or not. */
  #lose(wire: Wire): void {
    if (this.#next === wire) {
      this.#miss(wire);
    } else if (this.#wire === wire) {
      this.#wire = null;
      this.#replaceDueMs = Number.POSITIVE_INFINITY;
      this.#reportLost();
      if (!this.#next) this.#retry();
    }
    this.#on.planned();
  }

  /** Continue after a connection that did not open. */
  #miss(wire: Wire): void {
    if (this.#next !== wire) return;
    this.#next = null;
    if (this.#wire) {
      this.#replaceDueMs = this.#clock.nowMs() + this.#pace.answerS * 1000;
      return;
    }
    this.#reportLost();
    this.#retry();
  }

  /** Plan another attempt. A page stays open for as long as the user wants, so the last delay repeats forever. */
  #retry(): void {
    const delays = this.#pace.reconnectDelaysS;
    const delayS = delays[Math.min(this.#breaks, delays.length - 1)] ?? 0;
    this.#breaks += 1;
    this.#retryDueMs = this.#clock.nowMs() + between(this.#random, 0, delayS) * 1000;
  }

  #refuse(failure: Failure): void {
    this.refuse();
    this.#on.refused(failure);
    this.#on.planned();
  }

  #end(is: "closed" | "refused"): void {
    const ended = [this.#wire, this.#next];
    this.#wire = this.#next = null;
    this.#retryDueMs = this.#replaceDueMs = Number.POSITIVE_INFINITY;
    for (const wire of ended) wire?.connection?.close();
    this.#report(is);
  }

  #reportLost(): void {
    this.#lostMs ??= this.#clock.nowMs();
    this.#report("lost", this.#lostMs);
  }

  #report(is: LinkState["is"], sinceMs = this.#clock.nowMs()): void {
    if (this.#state.is === is) return;
    this.#state = { is, sinceMs };
    this.#on.changed(this.#state);
  }
}
