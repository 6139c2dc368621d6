/** Effects of a frame on the client's state, for display: those in `frames.ts`, and those that only a page uses. */

import type { FeedFrame, FoldEffect, NoticeFrame, TurnEnded, WatchingFrame } from "./frames.ts";

/**
 * Information about the conversation that is not in its log, such as the result of an upload check. It may arrive
 * twice.
 */
export interface NoticeHeard {
  readonly kind: "noticeHeard";
  readonly frame: NoticeFrame;
}

/**
 * A frame of the feed of the user's conversations. `watching` starts the feed and means that the list must be read now;
 * `feed` reports a change of one conversation.
 */
export interface FeedHeard {
  readonly kind: "feedHeard";
  readonly frame: WatchingFrame | FeedFrame;
}

export type Effect = FoldEffect | NoticeHeard | FeedHeard;

/** Return true if the turn ended with an answer by the model. */
export function isAnswered(ended: TurnEnded): boolean {
  return ended.outcome === "completed" && ended.reason !== "violations" && ended.reason !== "token_limit";
}
