/** The list of conversations as a fold: pages and frames, in any order. */

import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type FeedFrame,
  type FeedItem,
  type FeedRow,
  type FeedRows,
  foldFeed,
  parseFrame,
  takePage,
  unreadN,
} from "../../src/client/index.ts";

const C = "c1";

/** Return a row of the list that was read after batch `n`. */
function item(n: number, fields: Partial<FeedItem> = {}): FeedItem {
  return { conversation: C, title: "", state: "idle", n, active_n: n, unread_n: 0, ...fields };
}

function frame(fields: object): FeedFrame {
  return parseFrame({ frame: "feed", conversation: C, ...fields }) as FeedFrame;
}

function status(n: number, state: string, data: object = {}): FeedFrame {
  return frame({ n, events: [{ type: "conv.status", route: "conv_status", ts: "", data: { state, ...data } }] });
}

function titled(n: number, title: string): FeedFrame {
  return frame({ n, events: [{ type: "chat.conversation.title", route: "chat_step", ts: "", data: { title } }] });
}

function read(n: number): FeedFrame {
  return frame({ read_n: n });
}

function fold(...steps: readonly (FeedFrame | FeedItem)[]): FeedRow & { unreadN: number } {
  let rows: FeedRows = new Map();
  for (const step of steps) rows = "frame" in step ? foldFeed(rows, step) : takePage(rows, [step]);
  const row = rows.get(C) as FeedRow;
  return { ...row, unreadN: unreadN(row) };
}

it("a new conversation appears in the list without a page", () => {
  const row = fold(status(1, "in_progress"), titled(1, "Hello"));
  expect(row).toMatchObject({ title: "Hello", state: "in_progress", unreadN: 1 });
});

it("the end of a turn is unread, its start is not", () => {
  const begun = [item(5, { title: "Hello" }), status(6, "in_progress")];
  expect(fold(...begun)).toMatchObject({ state: "in_progress", unreadN: 0 });
  expect(fold(...begun, status(9, "idle", { completion: "success" }))).toMatchObject({ state: "idle", unreadN: 6 });
});

it("an approval request is unread, its answer is not", () => {
  const asked = [item(5), status(6, "in_progress"), status(8, "in_progress", { waits_for: "approval" })];
  expect(fold(...asked)).toMatchObject({ waitsFor: "approval", state: "in_progress", unreadN: 6 });
  expect(fold(...asked, read(8), status(9, "in_progress"))).toMatchObject({ waitsFor: "", unreadN: 0 });
});

it("a row of the list shows that a conversation waits for an approval", () => {
  const asked = item(8, { state: "in_progress", waits_for: "approval" });
  expect(fold(asked).waitsFor).toBe("approval");
  expect(fold(asked, status(9, "in_progress")).waitsFor).toBe("");
  expect(fold(status(9, "in_progress"), asked).waitsFor).toBe("");
});

it("a batch that was read on another device is read here", () => {
  expect(fold(item(9, { unread_n: 4 }), read(9)).unreadN).toBe(0);
  expect(fold(item(9, { unread_n: 4 }), read(6)).unreadN).toBe(7);
  expect(fold(item(9), read(3)).unreadN).toBe(0);
});

it("a page from before a frame changes nothing newer", () => {
  const late = [status(9, "error", { completion: "error" }), titled(8, "New")];
  const row = fold(...late, item(5, { title: "Old", state: "in_progress" }));
  expect(row).toMatchObject({ title: "New", state: "error", unreadN: 6 });
});

it("a frame from before the page changes nothing", () => {
  const page = item(9, { title: "New", unread_n: 9 });
  expect(fold(page, titled(3, "Old"), status(6, "in_progress"))).toEqual(fold(page));
});

it("a newer page corrects an early state of a page, but not of a frame", () => {
  const early = item(9, { state: "in_progress" });
  expect(fold(early, item(9)).state).toBe("idle");
  expect(fold(status(9, "idle", { completion: "success" }), early).state).toBe("idle");
});

const STEPS = [
  status(1, "in_progress"),
  titled(1, "First"),
  status(5, "idle", { completion: "success" }),
  titled(6, "Second"),
  status(7, "in_progress"),
  status(8, "in_progress", { waits_for: "approval" }),
  status(9, "in_progress", { completion: "queued_next" }),
  status(12, "error", { completion: "error" }),
  read(5),
  read(9),
  item(5, { title: "First", unread_n: 1 }),
  item(6, { title: "Second", active_n: 5 }),
  item(12, { title: "Second", state: "error", unread_n: 10 }),
];

function inAnyOrder(steps: readonly (FeedFrame | FeedItem)[]): fc.Arbitrary<(FeedFrame | FeedItem)[]> {
  return fc.shuffledSubarray([...steps], { minLength: steps.length });
}

it("frames and pages give the same list in any order, and twice", () => {
  fc.assert(
    fc.property(inAnyOrder([...STEPS, ...STEPS]), (steps) => {
      expect(fold(...steps)).toMatchObject({ title: "Second", state: "error", activeN: 12, unreadN: 10 });
    }),
  );
});

it("a deleted conversation stays deleted, even if other frames arrive late", () => {
  fc.assert(
    fc.property(inAnyOrder([...STEPS, ...STEPS, status(13, "deleted")]), (steps) => {
      expect(fold(...steps)).toMatchObject({ title: "", state: "deleted", unreadN: 0 });
    }),
  );
});
