/** Effects of a frame on the client's state, to be displayed. One interface a class of `change.py`. */

import type {
  AbortReason,
  AckFrame,
  ClientEvent,
  ErrorFrame,
  FeedFrame,
  LaneFacts,
  NoticeFrame,
  SyncFrame,
  WatchingFrame,
} from "./wire.ts";

/** The durable events of batch `n`, now the client's cursor. Each batch is applied once, in order. */
export interface EventsApplied {
  readonly kind: "eventsApplied";
  readonly n: number;
  readonly prev: number;
  readonly events: readonly ClientEvent[];
}

/**
 * `text` goes on at character `off` (in code points) of lane `lane`, without repeating anything.
 *
 * Nothing before it is missing, but for the log of a program, of which the end alone is kept.
 */
export interface TextAppended {
  readonly kind: "textAppended";
  readonly claim: number;
  readonly lane: string;
  readonly off: number;
  readonly text: string;
}

/** The facts of a lane of stream `claim`. Lane `facts.replaces`, if set, is void. */
export interface LaneKnown {
  readonly kind: "laneKnown";
  readonly claim: number;
  readonly lane: string;
  readonly facts: LaneFacts;
}

/** A lane of stream `claim` is complete; `aborted` says why its text stops early, `at` when its program ended. */
export interface LaneEnded {
  readonly kind: "laneEnded";
  readonly claim: number;
  readonly lane: string;
  readonly chars: number;
  readonly aborted: AbortReason;
  readonly at: string;
}

/** The text shown of stream `claim` is void: another attempt begins, or the round ended without it. */
export interface StreamReset {
  readonly kind: "streamReset";
  readonly claim: number;
}

/** The decision is in the log: the displayed text of stream `claim` stays and grows no further. */
export interface StreamSettled {
  readonly kind: "streamSettled";
  readonly claim: number;
}

/**
 * The turn was interrupted by event `n`; `text` is empty for a stop.
 *
 * `phase` is the phase that was cancelled: `decision`, `tools` or empty. `finalizeRounds` are left to come to an end, 0 for
 * a stop.
 */
export interface Steered {
  readonly kind: "steered";
  readonly n: number;
  readonly turnId: string;
  readonly messageId: string;
  readonly text: string;
  readonly phase: string;
  readonly finalizeRounds: number;
}

/** A message was handed back: the model never saw it, and it may be sent again. `text` is empty if it is not known here. */
export interface HandedBack {
  readonly kind: "handedBack";
  readonly n: number;
  readonly messageId: string;
  /** The kind of the message: `followup`, `steer`, … */
  readonly messageKind: string;
  readonly text: string;
  readonly reason: string;
}

/**
 * The end of the turn, in batch `n`. `answer` is the recorded one and replaces the streamed text.
 *
 * A turn that failed may succeed if it is `retryable`: when its message is sent again, under a new id and no sooner than in
 * `retryAfterS` seconds. That is for the user to decide, since its tools may have had effects.
 */
export interface TurnEnded {
  readonly kind: "turnEnded";
  readonly n: number;
  readonly turnId: string;
  readonly outcome: "completed" | "error";
  readonly answer: string;
  readonly reason: string;
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly retryAfterS: number;
}

/** The turn waits in line to begin, at this place: 1 is the next. At place 0 it waits no longer. */
export interface Waiting {
  readonly kind: "waiting";
  readonly turnId: string;
  readonly place: number;
}

/** One of our messages is in the log. */
export interface Acknowledged {
  readonly kind: "acknowledged";
  readonly frame: AckFrame;
}

/** The server refused a request; the connection stays usable. */
export interface Refused {
  readonly kind: "refused";
  readonly frame: ErrorFrame;
}

/** The server asks for a pause: the message is sent again in `frame.retry_after_s` seconds, under its id. */
export interface PutOff {
  readonly kind: "putOff";
  readonly frame: ErrorFrame;
}

/** A replay is complete. */
export interface Synced {
  readonly kind: "synced";
  readonly frame: SyncFrame;
}

/** Something about the conversation that its log does not hold, such as the verdict about an upload. It may come twice. */
export interface NoticeHeard {
  readonly kind: "noticeHeard";
  readonly frame: NoticeFrame;
}

/** The feed of the user's conversations begins, and the list is to be read now; or it tells of one of them. */
export interface FeedHeard {
  readonly kind: "feedHeard";
  readonly frame: WatchingFrame | FeedFrame;
}

export type Effect =
  | EventsApplied
  | TextAppended
  | LaneKnown
  | LaneEnded
  | StreamReset
  | StreamSettled
  | Steered
  | HandedBack
  | TurnEnded
  | Waiting
  | Acknowledged
  | Refused
  | PutOff
  | Synced
  | NoticeHeard
  | FeedHeard;

/** Return true if the turn came to an answer of the model's. */
export function isAnswered(ended: TurnEnded): boolean {
  return ended.outcome === "completed" && ended.reason !== "violations" && ended.reason !== "token_limit";
}
