import { beforeEach, describe, expect, it } from "vitest";
import type { ListState } from "../../src/ui/list/conversation_list.ts";
import { countWaiting, type ListRow } from "../../src/ui/list/rows.ts";
import { watchList } from "../../src/ui/notify/notify.ts";
import { Store } from "../../src/ui/store/store.ts";

function row(conversation: string, more: Partial<ListRow> = {}): ListRow {
  return {
    conversation,
    title: `About ${conversation}`,
    state: "idle",
    at: 0,
    unread: false,
    waits: false,
    branchOf: "",
    ...more,
  };
}

let list: Store<ListState>;
let shown: string[][];
let nowMs: number;
let hidden: boolean;
let stop: () => void;

const shows = (...rows: readonly ListRow[]) => list.update({ rows });

beforeEach(() => {
  list = new Store<ListState>({
    phase: "ready",
    feed: new Map(),
    activity: new Map(),
    roots: new Map(),
    rows: [],
    next: "",
  });
  shown = [];
  nowMs = 1_000_000;
  hidden = true;
  shows(row("old", { state: "in_progress", waits: true }), row("a"));
  stop = watchList(list, { nowMs: () => nowMs, hidden: () => hidden, show: (...words) => shown.push(words) });
});

const runs = (more: Partial<ListRow> = {}) => row("a", { state: "in_progress", ...more });

describe("a notification", () => {
  it("shows once that a conversation needs an approval, only by its title", () => {
    shows(runs());
    shows(runs({ waits: true }));
    shows(runs({ waits: true, unread: true }));
    expect(shown).toEqual([["a", "About a", "Needs your approval"]]);
  });

  it("shows that a long turn has ended", () => {
    shows(runs());
    nowMs += 31_000;
    shows(row("a"));
    shows(runs());
    nowMs += 29_000;
    shows(row("a", { unread: true }));
    shows(runs());
    nowMs += 60_000;
    shows(row("a", { state: "error" }));
    expect(shown.map(([, , words]) => words)).toEqual(["Finished", "Ended with an error"]);
  });

  it("is not shown while the page is visible, for an old state, or after it was turned off", () => {
    hidden = false;
    shows(runs({ waits: true }));
    hidden = true;
    shows(row("old", { state: "in_progress", waits: true, unread: true }), row("new", { waits: true }));
    stop();
    shows(row("new"));
    shows(row("new", { waits: true }));
    expect(shown).toEqual([]);
  });
});

describe("the number of waiting conversations", () => {
  it("uses the open one's thread, which may be newer than the list", () => {
    const rows = [row("a", { waits: true }), row("b", { waits: true }), row("c")];
    expect(countWaiting(rows, "a", null)).toBe(2);
    expect(countWaiting(rows, "a", false)).toBe(1);
    expect(countWaiting(rows, "c", true)).toBe(3);
  });
});
