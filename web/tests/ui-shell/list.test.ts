import { describe, expect, it } from "vitest";
import type { ConversationRow, ConversationList as Page } from "../../src/api/index.ts";
import { ConversationList } from "../../src/ui/list/conversation_list.ts";
import { dayOf, groupByDay, type ListRow, matchTitles } from "../../src/ui/list/rows.ts";
import { ScriptedClock, settle } from "./scripted.ts";

const NOW = new Date(2026, 10, 25, 9, 30).getTime();
const HOUR = 3_600_000;

function row(conversation: string, at: number, title = conversation): ListRow {
  return { conversation, title, state: "idle", at, unread: false, waits: false, branchOf: "" };
}

describe("the day of a row", () => {
  it("follows the calendar, not a number of hours", () => {
    expect(dayOf(new Date(2026, 10, 25, 0, 0).getTime(), NOW)).toBe("today");
    expect(dayOf(new Date(2026, 10, 24, 23, 59).getTime(), NOW)).toBe("yesterday");
    expect(dayOf(new Date(2026, 10, 18, 1, 0).getTime(), NOW)).toBe("week");
    expect(dayOf(new Date(2026, 10, 17, 23, 0).getTime(), NOW)).toBe("month");
    expect(dayOf(new Date(2026, 8, 1).getTime(), NOW)).toBe("older");
  });

  it("is today for a future time", () => {
    expect(dayOf(NOW + 48 * HOUR, NOW)).toBe("today");
  });
});

it("rows are grouped by day, newest first, without empty groups", () => {
  const groups = groupByDay([row("a", NOW - 30 * HOUR), row("b", NOW - HOUR), row("c", NOW)], NOW);
  expect(groups.map((group) => [group.day, group.rows.map((one) => one.conversation)])).toEqual([
    ["today", ["c", "b"]],
    ["yesterday", ["a"]],
  ]);
});

it("a title matches all words of a query, in any case", () => {
  const rows = [row("a", 0, "Order: plan Pro, 4 seats"), row("b", 0, "Two plans")];
  expect(matchTitles(rows, "PRO plan").map((one) => one.conversation)).toEqual(["a"]);
});

function item(conversation: string, more: Partial<ConversationRow> = {}): ConversationRow {
  const times = { started_at: "", last_activity_at: "2026-11-25T08:00:00Z" };
  return {
    conversation,
    title: conversation,
    state: "idle",
    waits_for: "",
    turns: 1,
    unread_n: 0,
    n: 5,
    active_n: 5,
    branch_of: "",
    ...times,
    ...more,
  };
}

function listed(...pages: (Page | Error)[]) {
  const clock = new ScriptedClock();
  const asked: unknown[] = [];
  const marks: unknown[] = [];
  const list = new ConversationList(
    {
      listAll: async (query) => {
        asked.push(query);
        const page = pages.shift() ?? { items: [], next: "" };
        if (page instanceof Error) throw page;
        return page;
      },
      markRead: async (conversation, { n }) => {
        marks.push([conversation, n]);
      },
    },
    clock,
  );
  return { list, clock, asked, marks };
}

describe("the list", () => {
  it("is read when the feed begins, and again after 5 s", async () => {
    const { list, clock, asked } = listed({ items: [item("a")], next: "" });
    list.apply({ frame: "watching", expires_at: 0 });
    await settle();
    expect(list.store.value.rows).toMatchObject([{ conversation: "a", title: "a", unread: false }]);
    clock.pass(5_000);
    expect(asked).toHaveLength(2);
  });

  it("shows that it cannot be read, and then keeps its rows", async () => {
    const { list } = listed(new Error("gone"), { items: [item("a")], next: "" }, new Error("gone"));
    await list.load();
    expect(list.store.value.phase).toBe("failed");
    await list.load();
    await list.load();
    expect(list.store.value).toMatchObject({ phase: "ready", rows: [{ conversation: "a" }] });
  });

  it("has a row for a conversation that only the feed knows, at its time", () => {
    const { list } = listed();
    const data = { state: "in_progress" };
    const status = { type: "conv.status", route: "", turn_id: "", step: "", status: "", data };
    const event = { ...status, ts: "2026-11-25T09:15:00Z" };
    list.apply({ frame: "feed", conversation: "b", n: 1, events: [event], read_n: 0 });
    const at = Date.parse("2026-11-25T09:15:00Z");
    expect(list.store.value.rows).toMatchObject([{ conversation: "b", state: "in_progress", at, unread: true }]);
  });

  it("shows a branch of another device as a row only when a page says of which tree it is", async () => {
    const branch = item("b", { branch_of: "a" });
    const { list, clock } = listed({ items: [item("a")], next: "" }, { items: [branch, item("a")], next: "" });
    const names = () => list.store.value.rows.map((one) => [one.conversation, one.branchOf]);
    await list.load();
    for (const n of [2, 3]) list.apply({ frame: "feed", conversation: "b", n, events: [], read_n: 0 });
    expect(names()).toEqual([["a", ""]]);
    clock.pass(1_000);
    await settle();
    expect(names()).toEqual([
      ["a", ""],
      ["b", "a"],
    ]);
  });

  it("shows a conversation that the feed named first also if no page has it", async () => {
    const { list, clock } = listed({ items: [item("a")], next: "" }, new Error("gone"));
    await list.load();
    list.apply({ frame: "feed", conversation: "b", n: 7, events: [], read_n: 0 });
    clock.pass(1_000);
    await settle();
    expect(list.store.value.rows.map((one) => one.conversation)).toEqual(["a", "b"]);
  });

  it("keeps unchanged rows", async () => {
    const { list } = listed(
      { items: [item("a"), item("b")], next: "" },
      { items: [item("a", { title: "new", n: 6 })], next: "" },
    );
    await list.load();
    const before = list.store.value.rows;
    await list.load();
    expect(list.store.value.rows.map((one) => one.title)).toEqual(["new", "b"]);
    expect(list.store.value.rows[1]).toBe(before[1]);
  });

  it("continues after its last page, even if the first is read again", async () => {
    const { list, asked } = listed(
      { items: [item("a")], next: "one" },
      { items: [item("b")], next: "two" },
      { items: [item("a")], next: "one" },
    );
    await list.load();
    await list.loadMore();
    await list.load();
    expect(list.store.value.next).toBe("two");
    expect(asked).toEqual([{}, { after: "one" }, {}]);
  });

  it("records newly read batches once", async () => {
    const { list, marks } = listed({ items: [item("a", { unread_n: 4 }), item("b")], next: "" });
    await list.load();
    list.markRead("a", 4);
    expect(marks).toEqual([]);
    list.markRead("a", 5);
    list.markRead("a", 5);
    list.markRead("b", 5);
    expect(marks).toEqual([["a", 5]]);
    expect(list.store.value.rows[0]?.unread).toBe(false);
  });
});
