/**
 * The two things that everything drawn of a thread is given: what a reader can do, and what they have done so far.
 *
 * The shell implements both; the thread and the margin only call them. Nothing here knows the network.
 */

import type { Message, WholeReceipt } from "../thread/thread.ts";

export type Reaction = "ok" | "not_ok";

/** What a reader can do. Those that return a promise resolve to "" when the server took it, else to the code of the refusal. */
export interface Acts {
  /** A new turn, or an addition to the one that runs. */
  send(text: string, uploads?: readonly string[]): void;
  /** Interrupts; the turn comes to an end. */
  steer(text: string): void;
  stop(): void;
  /** The same text and files once more, under a new message id; the old message is offered no more. */
  sendAgain(message: Message): void;
  /** A message that was handed back or refused is offered no more. */
  discard(messageId: string): void;
  approve(callId: string): Promise<string>;
  deny(callId: string, text: string): Promise<string>;
  edit(callId: string, params: Readonly<Record<string, unknown>>): Promise<string>;
  /** `null` takes the reader's own rating back. One that comes too early calls `onKept`, and is sent when the turn has ended. */
  rate(turnId: string, reaction: Reaction | null, text: string, onKept: () => void): Promise<string>;
  /** Shows a logical path of this conversation in the preview. */
  openFile(path: string): void;
  /** A picture of this conversation as the address of a blob, which the caller revokes; "" if it cannot be shown. Never rejects. */
  loadPicture(path: string, signal: AbortSignal): Promise<string>;
  /** The inspector at a round; `iteration` counts from 0. */
  openTimeline(turnId: string, iteration: number): void;
  fillComposer(text: string): void;
  /** The page of events before the oldest that is here. */
  loadEarlier(): void;
  /** Everything that a turn cost, as far as it has been counted by now. Rejects with the refusal's `code`. */
  readReceipt(turnId: string): Promise<WholeReceipt>;
}

/** A place of the thread that the address names: opened, scrolled to and marked once. */
export interface Target {
  readonly turnId: string;
  /** From 0, null for the turn itself. */
  readonly iteration: number | null;
  readonly callId: string;
}

/** Why a message has not been taken yet. */
export interface Trouble {
  readonly code: string;
  /** The sentence of the error frame, "" for the words of the code alone. */
  readonly message: string;
  /** It is tried again by itself. */
  readonly trying: boolean;
}

/** What a reader did, and what is only on its way. A new object when, and only when, one of its fields is another one. */
export interface ThreadContext {
  readonly conversation: string;
  /**
   * What was opened or closed by hand. A key is the thing's own (`turnKey`, `roundKey`, `callKey` of `turn/opened.ts`)
   * behind `+` (opened, though it is closed by itself) or `-` (closed, though it is open by itself).
   */
  readonly open: ReadonlySet<string>;
  toggle(id: string): void;
  /** Epoch milliseconds on the server's clock, as well as the page knows it. */
  now(): number;
  /** Sent, and not in the log yet; oldest first. */
  readonly outbox: readonly Message[];
  /** By message id. */
  readonly troubles: ReadonlyMap<string, Trouble>;
  /** Ids of messages that are offered no more. */
  readonly discarded: ReadonlySet<string>;
  readonly target: Target | null;
  /** There are turns before the oldest that is here: `loadEarlier` brings them. */
  readonly earlier: "none" | "some" | "loading";
  /** `local`, `dev`, `prod`, …: as in `/config.json`. */
  readonly stage: string;
  /** This reader may open the inspector. */
  readonly inspect: boolean;
}
