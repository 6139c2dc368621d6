import { describe, expect, it } from "vitest";
import type { SearchItem, SearchPage } from "../../src/api/index.ts";
import { type KeyAct, keyAct } from "../../src/ui/keys/keys.ts";
import { groupHits, Search } from "../../src/ui/search/search.ts";
import { ScriptedClock, settle } from "./scripted.ts";

function hit(conversation: string, n: number): SearchItem {
  return { conversation, turn_id: "turn_x", n, kind: "user", at: "", excerpt: [] };
}

function searching(...pages: (Partial<SearchPage> | Error)[]) {
  const clock = new ScriptedClock();
  const asked: unknown[] = [];
  const api = {
    search: async (query: unknown) => {
      asked.push(query);
      const page = pages.shift() ?? {};
      if (page instanceof Error) throw page;
      return { items: [], next: "", behind: false, ...page };
    },
  };
  return { clock, asked, search: new Search(api, clock) };
}

describe("a search", () => {
  it("starts 200 ms after the last letter", async () => {
    const { clock, asked, search } = searching({ items: [hit("a", 1)] });
    search.ask("ca");
    clock.pass(199);
    search.ask("cache");
    clock.pass(199);
    expect(asked).toEqual([]);
    clock.pass(1);
    await settle();
    expect(asked).toEqual([{ q: "cache" }]);
    expect(search.store.value).toMatchObject({ phase: "ready", items: [{ conversation: "a" }] });
  });

  it("drops the answer to an outdated query", async () => {
    const { clock, search } = searching({ items: [hit("a", 1)] }, { items: [hit("b", 1)] });
    search.ask("one");
    clock.pass(200);
    search.ask("two");
    await settle();
    expect(search.store.value.items).toEqual([]);
    clock.pass(200);
    await settle();
    expect(search.store.value.items).toMatchObject([{ conversation: "b" }]);
  });

  it("continues after its last hit", async () => {
    const { clock, asked, search } = searching({ items: [hit("a", 1)], next: "more" }, { items: [hit("b", 1)] });
    search.ask("one");
    clock.pass(200);
    await settle();
    search.more();
    await settle();
    expect(asked[1]).toEqual({ q: "one", after: "more" });
    expect(search.store.value.items).toHaveLength(2);
  });

  it("shows that it failed", async () => {
    const { clock, search } = searching(new Error("gone"));
    search.ask("one");
    clock.pass(200);
    await settle();
    expect(search.store.value.phase).toBe("failed");
  });

  it("does not start without words", () => {
    const { clock, asked, search } = searching();
    search.ask("one");
    search.ask("  ");
    clock.pass(1_000);
    expect(asked).toEqual([]);
    expect(search.store.value.phase).toBe("idle");
  });
});

it("hits are grouped by conversation, the one with the best hit first", () => {
  const groups = groupHits([hit("b", 1), hit("a", 1), hit("b", 2)]);
  expect(groups.map((group) => [group.conversation, group.items.map((item) => item.n)])).toEqual([
    ["b", [1, 2]],
    ["a", [1]],
  ]);
});

describe("a key of the page", () => {
  const press = (key: string, more = {}) => ({
    key,
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    defaultPrevented: false,
    ...more,
  });

  it.each<[string, KeyAct]>([
    ["/", "search"],
    ["n", "new"],
    ["j", "next"],
    ["t", "timeline"],
    ["[", "list"],
    ["?", "help"],
    ["x", "none"],
  ])("%s performs: %s", (key, act) => {
    expect(keyAct(press(key), false, true)).toBe(act);
  });

  it("does nothing in a field, with a modifier, or while letters are off", () => {
    expect(keyAct(press("n"), true, true)).toBe("none");
    expect(keyAct(press("n", { metaKey: true }), false, true)).toBe("none");
    expect(keyAct(press("n"), false, false)).toBe("none");
    expect(keyAct(press("?"), false, false)).toBe("none");
  });

  it("Escape closes from everywhere, but nothing that has already closed", () => {
    expect(keyAct(press("Escape"), true, false)).toBe("escape");
    expect(keyAct(press("Escape", { defaultPrevented: true }), false, true)).toBe("none");
  });
});
