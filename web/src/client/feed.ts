/**
 * The list of a user's conversations as a pure fold over pages of the list and frames of the feed.
 *
 * Send `watch` first, and read the list once the feed has begun: later changes arrive as frames. Each field remembers
 * the batch that it comes from. Frames and pages therefore give the same list in any order, and duplicates change
 * nothing. Source: docs/concepts/streaming.md#the-feed.
 */

import type { ClientEvent, FeedFrame } from "./frames.ts";

/**
 * A conversation. `state` is as in `conv.status`, or "" while unknown; `activeN` is the newest batch with something to
 * read.
 *
 * `waitsFor` belongs to the state: `approval`, or "". `titleAt` and `stateAt` are the batches that the title and the
 * state come from. For the same batch, a frame wins over a row: the row may have been read before the effects of that
 * batch were done.
 */
export interface FeedRow {
  readonly conversation: string;
  readonly title: string;
  readonly titleAt: number;
  readonly state: string;
  readonly waitsFor: string;
  readonly stateAt: readonly [n: number, byFrame: boolean];
  readonly activeN: number;
  readonly readN: number;
}

/**
 * The state of a deleted conversation. The row is kept but hidden, because a page may have been read before the
 * deletion.
 */
export const GONE = "deleted";

/** Conversations by name. */
export type FeedRows = ReadonlyMap<string, FeedRow>;

/** An item of a page of `GET /v1/conversations`, with the fields that the list uses. */
export interface FeedItem {
  readonly conversation: string;
  readonly title: string;
  readonly state: string;
  /** Missing from servers of an older release. */
  readonly waits_for?: string;
  readonly n: number;
  readonly active_n: number;
  readonly unread_n: number;
}

/** Return the first batch that the user has not read; 0 if there is none. */
export function unreadN(row: FeedRow): number {
  return row.readN < row.activeN ? row.readN + 1 : 0;
}

/** Return the list with the `items` of a page merged in. */
export function takePage(rows: FeedRows, items: Iterable<FeedItem>): FeedRows {
  const taken = new Map(rows);
  for (const item of items) taken.set(item.conversation, takeItem(rowOf(rows, item.conversation), item));
  return taken;
}

/** Return the list after a frame of the feed. */
export function foldFeed(rows: FeedRows, frame: FeedFrame): FeedRows {
  let row = rowOf(rows, frame.conversation);
  row = { ...row, readN: Math.max(row.readN, frame.read_n) };
  for (const event of frame.events) row = takeEvent(row, frame.n, event);
  return new Map(rows).set(frame.conversation, row);
}

function rowOf(rows: FeedRows, conversation: string): FeedRow {
  const unknown = {
    conversation,
    title: "",
    titleAt: 0,
    state: "",
    waitsFor: "",
    stateAt: [0, false],
    activeN: 0,
    readN: 0,
  } as const;
  return rows.get(conversation) ?? unknown;
}

function takeItem(row: FeedRow, item: FeedItem): FeedRow {
  if (row.state === GONE) return row;
  const { n, title, state } = item;
  return {
    ...row,
    activeN: Math.max(row.activeN, item.active_n),
    readN: Math.max(row.readN, item.unread_n ? item.unread_n - 1 : item.active_n),
    ...(n >= row.titleAt && { title, titleAt: n }),
    ...(isAsNew(row, n, false) && { state, waitsFor: asText(item.waits_for), stateAt: [n, false] as const }),
  };
}

function takeEvent(row: FeedRow, n: number, event: ClientEvent): FeedRow {
  const { type, data } = event;
  if (row.state === GONE) return row;
  if (type === "chat.conversation.title" && n >= row.titleAt) {
    return { ...row, title: asText(data.title), titleAt: n };
  }
  if (type !== "conv.status") return row;
  if (data.state === GONE) {
    return { ...row, title: "", titleAt: n, state: GONE, waitsFor: "", stateAt: [n, true], activeN: row.readN };
  }
  const waitsFor = asText(data.waits_for);
  return {
    ...row,
    ...((n === 1 || Boolean(data.completion) || waitsFor !== "") && { activeN: Math.max(row.activeN, n) }),
    ...(isAsNew(row, n, true) && { state: asText(data.state), waitsFor, stateAt: [n, true] as const }),
  };
}

/** Return true if a state from batch `n` is at least as new as the known one. */
function isAsNew(row: FeedRow, n: number, byFrame: boolean): boolean {
  const [knownN, knownByFrame] = row.stateAt;
  return n > knownN || (n === knownN && (byFrame || !knownByFrame));
}

function asText(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}
