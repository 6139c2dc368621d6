// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Conversations } from "../../src/ui/list/conversation_rows.tsx";
import type { ListRow } from "../../src/ui/list/rows.ts";
import type { Page } from "../../src/ui/store/page.ts";
import { Store } from "../../src/ui/store/store.ts";

const row = { conversation: "a", title: "One", at: 0, state: "idle", unread: false } as unknown as ListRow;

function show(phase: string, rows: readonly ListRow[]) {
  const list = new Store({ phase, rows, roots: new Map(), next: "" });
  const current = { name: "b", store: new Store({ phase: "new" }) };
  const page = {
    list: { store: list },
    current: new Store(current),
    route: new Store({ is: "new" }),
    config: { stage: "local" },
    auth: { user: { name: "ada" } },
  } as unknown as Page;
  const root = document.createElement("div");
  act(() => render(<Conversations page={page} />, root));
  return { list, has: (selector: string) => root.querySelectorAll(`.rows ${selector}`).length };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("shows nothing for 300 ms while it loads, then grey lines, and then its rows", () => {
  const { list, has } = show("loading", []);
  act(() => void vi.advanceTimersByTime(299));
  expect(has("*")).toBe(0);
  act(() => void vi.advanceTimersByTime(1));
  expect(has(".grey")).toBe(8);
  act(() => list.update({ phase: "ready", rows: [row] }));
  expect([has(".grey"), has("a")]).toEqual([0, 1]);
});

it("shows its known rows while it is read again, and a sentence if there are none", () => {
  expect(show("loading", [row]).has("a")).toBe(1);
  expect(show("ready", []).has(".empty")).toBe(1);
});
