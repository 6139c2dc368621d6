/** The loaded pages of a conversation's log, and the facts derived from them. Pure. */

import { oneLine } from "./text.ts";

/** The number of batches in a page; the `after` of a page is a multiple of it. */
export const PAGE_BATCHES = 50;

/** An entry, or a value within one; fields with their default value are absent. */
export interface Entry {
  readonly [name: string]: unknown;
  readonly kind: string;
}

export interface Cursor {
  readonly iteration: number;
  readonly phase: string;
  readonly action: number;
}

/** The shown part of the state after a batch. */
export interface State {
  readonly status: string;
  readonly epoch: number;
  readonly claim: number;
  readonly rendered: number;
  readonly cursor: Cursor;
  readonly actions: number;
  readonly turn: string;
  readonly running: string;
  readonly parked: number;
  readonly finalize: number;
}

export interface Batch {
  readonly n: number;
  readonly at: string;
  readonly step?: string;
  readonly entries: readonly Entry[];
  readonly state: State;
}

/** Pages by number, from 0; `pages` are never changed. */
export interface LogBook {
  readonly pages: ReadonlyMap<number, readonly Batch[]>;
  /** The number of the last page, once it was read. */
  readonly last: number | null;
}

export const EMPTY_BOOK: LogBook = { pages: new Map(), last: null };

/** Return the number of the page that has batch `n`. */
export function pageOf(n: number): number {
  return Math.max(0, Math.floor((n - 1) / PAGE_BATCHES));
}

/** Return the book with one more page. A page only grows, so an older copy that arrives later changes nothing. */
export function withPage(book: LogBook, page: number, batches: readonly Batch[], next: number | null): LogBook {
  if ((book.pages.get(page)?.length ?? 0) > batches.length) return book;
  const pages = new Map(book.pages).set(page, batches);
  const last = book.last === page ? null : book.last;
  return { pages, last: next === null ? page : last };
}

/** Return a batch, null if its page was not read. */
export function batchOf(book: LogBook, n: number): Batch | null {
  return book.pages.get(pageOf(n))?.find((batch) => batch.n === n) ?? null;
}

/** Adjacent loaded pages. */
export interface Range {
  readonly first: number;
  readonly last: number;
  readonly batches: readonly Batch[];
}

/** Return the loaded pages around batch `n` without a gap; null if its own page is not loaded. */
export function rangeAround(book: LogBook, n: number): Range | null {
  let first = pageOf(n);
  let last = first;
  if (!book.pages.has(first)) return null;
  while (book.pages.has(first - 1)) first -= 1;
  while (book.pages.has(last + 1)) last += 1;
  const batches: Batch[] = [];
  for (let page = first; page <= last; page += 1) batches.push(...(book.pages.get(page) ?? []));
  return { first, last, batches };
}

/** Return the text that opened a turn, "" if its batch is not loaded. */
export function promptOf(book: LogBook, openedN: number): string {
  const opened = batchOf(book, openedN)?.entries.find((entry) => entry.kind === "opened");
  const prompts = (opened?.prompts ?? []) as readonly number[];
  for (const n of [...prompts, openedN]) {
    const said = batchOf(book, n)?.entries.find((entry) => entry.kind === "in");
    if (said) return oneLine(String(said.text || said.event || ""));
  }
  return "";
}

/** Return a one-line summary of a round: its notes, its thinking, or its calls. */
export function noteOf(book: LogBook, decidedN: number): string {
  const decision = batchOf(book, decidedN)?.entries.find((entry) => entry.kind === "decision");
  if (decision === undefined) return "";
  const [thought] = (decision.thinking ?? []) as readonly string[];
  const [call] = (decision.actions ?? []) as readonly Entry[];
  return oneLine(String(decision.notes || thought || call?.tool_id || decision.action || ""));
}

/** Return the turn since which the system part is unchanged; "" if unknown, or if it changed in this round. */
export function systemSince(book: LogBook, decidedN: number): string {
  for (let n = decidedN; n > 0; n -= 1) {
    const batch = batchOf(book, n);
    if (batch === null) return "";
    if (batch.entries.some((entry) => entry.kind === "decision" && entry.system))
      return n === decidedN ? "" : batch.state.turn;
  }
  return "";
}
