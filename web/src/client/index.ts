/** Client for Stepline's websocket: a pure fold of frames, and a session that feeds it. */

export { wellFormed } from "./characters.ts";
export type { Clock, Random } from "./clock.ts";
export { type Control, voidLanes } from "./control.ts";
export { type Credential, readExpiry } from "./credential.ts";
export * from "./effect.ts";
export { ClientError, type Failure } from "./failure.ts";
export { type FeedItem, type FeedRow, type FeedRows, foldFeed, GONE, takePage, unreadN } from "./feed.ts";
export type * from "./frames.ts";
export { BEYOND_END, CONTROL_LANE, DELETED, EXPIRED, FORMAT, FRAME_MAX_BYTES, MESSAGE_MAX_BYTES } from "./frames.ts";
export type { Connection, Dial, DialHandlers, LinkState } from "./link.ts";
export type { Reaction, Request, Verdict } from "./outgoing.ts";
export { PACE, type Pace } from "./pace.ts";
export { type Folded, foldFrame, foldFrames, isPassing, resumeRequest } from "./reducer.ts";
export { Session, type SessionOptions } from "./session.ts";
export type { Fields } from "./shape.ts";
export {
  type ClientState,
  emptyState,
  isBehind,
  isStreaming,
  type LaneText,
  laneText,
  noteMessage,
} from "./state.ts";
export { parseFrame, readFrame } from "./wire.ts";
