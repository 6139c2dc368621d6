/**
 * The two inputs of every component of a thread: the actions that a user can take, and their results so far.
 *
 * The shell implements both; the thread and the margin only call them. This module knows nothing of the network.
 */

import type { BranchPoint } from "../thread/branches.ts";
import type { Message, Turn, WholeReceipt } from "../thread/thread.ts";
import type { Edits, Past } from "./branches/past.ts";
import type { Store } from "./store/store.ts";

export type Reaction = "ok" | "not_ok";

/**
 * The user's actions. Those that return a promise resolve to "" when the server accepted the action, else to the code
 * of the refusal.
 */
export interface Acts {
  /** Starts a new turn, or adds to the running one. */
  send(text: string, uploads?: readonly string[]): void;
  /** Interrupts the turn and lets it finish. */
  steer(text: string): void;
  stop(): void;
  /** Sends the same text and files again under a new message id, and hides the old message. */
  sendAgain(message: Message): void;
  /** Hides a message that was handed back or refused. */
  discard(messageId: string): void;
  approve(callId: string): Promise<string>;
  deny(callId: string, text: string): Promise<string>;
  edit(callId: string, params: Readonly<Record<string, unknown>>): Promise<string>;
  /**
   * `null` removes the user's own rating. A rating that comes too early calls `onKept`, and is sent when the turn has
   * ended.
   */
  rate(turnId: string, reaction: Reaction | null, text: string, onKept: () => void): Promise<string>;
  /** Shows a logical path of this conversation in the preview. */
  openFile(path: string): void;
  /**
   * Loads a picture of this conversation and returns the address of its blob, which the caller revokes; "" if it cannot
   * be shown. Never rejects.
   */
  loadPicture(path: string, signal: AbortSignal): Promise<string>;
  /** Opens the inspector at a round; `iteration` counts from 0. */
  openTimeline(turnId: string, iteration: number): void;
  fillComposer(text: string): void;
  /** Sends another text instead of a message, in a new branch; asks first if something was done since or still runs. */
  editMessage(message: Message, text: string): Promise<string>;
  /** Sends the messages of a turn again, in a new branch; asks first, as `editMessage` does. */
  runAgain(turn: Turn): Promise<string>;
  /** Asks whether to begin a conversation of its own after a turn; `number` counts turns from 1. */
  forkAfter(turn: Turn, number: number): void;
  /** Shows the way of a point that is `by` ways further. */
  switchBranch(point: BranchPoint, by: 1 | -1): void;
  /** Shows another conversation, at a turn if its id is given. */
  openConversation(conversation: string, turnId?: string): void;
  /** Loads the page of events before the oldest loaded one. */
  loadEarlier(): void;
  /** Returns the full cost of a turn, as far as it is counted. Rejects with the refusal's `code`. */
  readReceipt(turnId: string): Promise<WholeReceipt>;
}

/** A place in the thread from the address: it is opened, scrolled to and highlighted once. */
export interface Target {
  readonly turnId: string;
  /** From 0, null for the turn itself. */
  readonly iteration: number | null;
  readonly callId: string;
}

/** The reason why a message is not accepted yet. */
export interface Problem {
  readonly code: string;
  /** The sentence of the error frame; "" shows the sentence of the code. */
  readonly message: string;
  /** The page retries automatically. */
  readonly trying: boolean;
}

/**
 * The state of the user's actions and of messages that are being sent. It is a new object if, and only if, one of its
 * fields has changed.
 */
export interface ThreadContext {
  readonly conversation: string;
  /**
   * Items that were opened or closed by hand. A key is the item's own (`turnKey`, `roundKey`, `callKey` of
   * `turn/opened.ts`) with the prefix `+` (opened, although closed by default) or `-` (closed, although open by
   * default).
   */
  readonly open: ReadonlySet<string>;
  toggle(id: string): void;
  /** Epoch milliseconds on the server's clock, as far as the page knows it. */
  now(): number;
  /** Sent but not in the log yet; oldest first. */
  readonly outbox: readonly Message[];
  /** By message id. */
  readonly problems: ReadonlyMap<string, Problem>;
  /** Ids of hidden messages. */
  readonly discarded: ReadonlySet<string>;
  readonly target: Target | null;
  /** Its branches and forks. */
  readonly past: Store<Past>;
  /** Its messages that are being edited. */
  readonly edits: Store<Edits>;
  /** Older turns exist: `loadEarlier` loads them. */
  readonly earlier: "none" | "some" | "loading";
  /** `local`, `dev`, `prod`, …, as in `/config.json`. */
  readonly stage: string;
  /** This user may open the inspector. */
  readonly inspect: boolean;
}
