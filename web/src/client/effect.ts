/** Effects of a frame on the client's state, to be displayed: those of `frames.ts`, and those of a page alone. */

import type { FeedFrame, FoldEffect, NoticeFrame, TurnEnded, WatchingFrame } from "./frames.ts";

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

export type Effect = FoldEffect | NoticeHeard | FeedHeard;

/** Return true if the turn came to an answer of the model's. */
export function isAnswered(ended: TurnEnded): boolean {
  return ended.outcome === "completed" && ended.reason !== "violations" && ended.reason !== "token_limit";
}
