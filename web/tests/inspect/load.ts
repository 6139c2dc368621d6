/** Reads the recordings of `record.py`, for tests that run in Node. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Receipts, Reply, RequestDiff, RequestView, Rounds } from "../../src/api/index.ts";
import type { Batch, LogBook } from "../../src/inspect/log_book.ts";
import { EMPTY_BOOK, PAGE_BATCHES, withPage } from "../../src/inspect/log_book.ts";
import { parseRecorded, type Recorded } from "./recorded.ts";

export const NAMES = ["stage", "reduced"] as const;

export function load(name: (typeof NAMES)[number]): Recorded {
  return parseRecorded(readFileSync(join(import.meta.dirname, "data", `${name}.jsonl`), "utf8"));
}

export const roundsOf = (data: Recorded) => data.answers.timeline as Rounds;
export const receiptsOf = (data: Recorded) => data.answers.receipts as Receipts;
export const requestOf = (data: Recorded, n: number) => data.answers[`requests/${n}`] as RequestView;
export const replyOf = (data: Recorded, n: number) => data.answers[`decisions/${n}`] as Reply;
export const diffOf = (data: Recorded, n: number, to: number) =>
  data.answers[`requests/${n}/diff?to=${to}`] as RequestDiff;

/** Return the numbers of the rounds whose requests were recorded. */
export function requestNumbers(data: Recorded): readonly number[] {
  return Object.keys(data.answers).flatMap((what) => /^requests\/(\d+)$/.exec(what)?.slice(1).map(Number) ?? []);
}

/** Return the pairs of rounds whose difference was recorded. */
export function diffNumbers(data: Recorded): readonly (readonly [number, number])[] {
  return Object.keys(data.answers).flatMap((what) => {
    const found = /^requests\/(\d+)\/diff\?to=(\d+)$/.exec(what);
    return found ? [[Number(found[1]), Number(found[2])] as const] : [];
  });
}

/** Return the whole log. */
export function bookOf(data: Recorded): LogBook {
  let book = EMPTY_BOOK;
  for (const [what, answer] of Object.entries(data.answers)) {
    const after = /^log\?after=(\d+)/.exec(what)?.[1];
    const page = answer as { batches: readonly Batch[]; next: number | null };
    if (after !== undefined) book = withPage(book, Number(after) / PAGE_BATCHES, page.batches, page.next);
  }
  return book;
}
