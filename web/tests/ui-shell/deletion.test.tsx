// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ApiError, type HttpApi } from "../../src/api/index.ts";
import type { AuthSession, PageConfig } from "../../src/auth/index.ts";
import { Confirm } from "../../src/ui/erase/confirm.tsx";
import { Deleted } from "../../src/ui/erase/deleted.tsx";
import { Conversations } from "../../src/ui/list/conversation_rows.tsx";
import { exportAll } from "../../src/ui/menu/my_data.tsx";
import { openSettings } from "../../src/ui/settings/settings.ts";
import { Page } from "../../src/ui/store/page.ts";
import { opening, ScriptedClock, ScriptedSocket, scriptedServices, settle } from "./scripted.ts";

const NOW = Date.parse("2026-11-25T09:00:00Z");
const missing = () => new ApiError({ status: 404, code: "not_found", detail: "" });

let socket: ScriptedSocket;
let clock: ScriptedClock;
let root: HTMLElement;
let deleted: string[];
let erased: number;
let refusals: string[];
let listed: string[];
let page: Page;

function item(conversation: string) {
  const times = { started_at: "", last_activity_at: "2026-11-25T08:00:00Z" };
  const counts = { turns: 1, unread_n: 0, n: 5, active_n: 5 };
  return { conversation, title: `About ${conversation}`, state: "idle" as const, ...counts, ...times };
}

const api = {
  listAll: async () => ({ items: listed.map(item), next: "" }),
  readEvents: () => Promise.reject(missing()),
  readLimits: async () => ({ scopes: [] }),
  deleteConversation: async (name: string) => {
    const code = refusals.shift();
    if (code) throw new ApiError({ status: 503, code, detail: "" });
    deleted.push(name);
  },
  eraseMe: async () => {
    erased += 1;
  },
};

async function opened(address: string): Promise<void> {
  page = new Page(
    {
      config: { stage: "local", inspect: "owner", uploads: true } as unknown as PageConfig,
      auth: {
        user: { name: "ada", subject: "ada", role: "user" },
        onExpired: () => undefined,
      } as unknown as AuthSession,
      api: api as unknown as HttpApi,
      settings: openSettings(null),
      services: scriptedServices(socket, { clock }),
      history: { address: () => ({ path: address, query: "" }), push: () => {}, replace: () => {}, back: () => {} },
      random: (bytes) => bytes.fill(7),
      signIn: () => Promise.resolve(),
      debug: false,
    },
    "",
  );
  await settle();
  socket.accept();
}

const draw = () =>
  act(() =>
    render(
      <>
        <Conversations page={page} />
        {page.current.value.store.value.phase === "deleted" && (
          <Deleted page={page} conversation={page.current.value} />
        )}
        <Confirm page={page} />
      </>,
      root,
    ),
  );
const names = () => page.list.store.value.rows.map((row) => row.conversation);
const phase = () => page.current.value.store.value.phase;
const dialog = () => root.querySelector<HTMLElement>("dialog");
const button = (name: string) =>
  [...root.querySelectorAll("button")].find(
    (one) => (one.getAttribute("aria-label") ?? one.textContent) === name,
  ) as HTMLButtonElement;
const press = async (name: string) => {
  await act(async () => {
    button(name).click();
    await settle();
  });
};
/** Delete the conversation on another device. */
const sendDeletion = (frame: "events" | "feed", n = 9) => {
  const data = { state: "deleted", updated_at: "", current_turn_id: "", completion: "" };
  const events = [{ type: "conv.status", route: "conv_status", ts: "2026-11-25T09:00:00Z", data }];
  const where = frame === "events" ? { prev: n - 1 } : {};
  act(() => socket.say({ frame, conversation: "chat-one", n, ...where, events }));
};

beforeEach(() => {
  socket = new ScriptedSocket();
  clock = new ScriptedClock(NOW);
  root = document.createElement("div");
  document.body.replaceChildren(root);
  deleted = [];
  erased = 0;
  refusals = [];
  listed = ["chat-one", "chat-two"];
});

afterEach(() => {
  act(() => render(null, root));
});

describe("a conversation in the list", () => {
  it("is deleted after a question that focuses Cancel and says that it cannot be undone", async () => {
    await opened("/c/chat-two");
    draw();
    await press("Delete About chat-one");
    expect(dialog()?.getAttribute("role")).toBe("alertdialog");
    const said = document.getElementById(dialog()?.getAttribute("aria-describedby") ?? "")?.textContent;
    expect(said).toMatch(/“About chat-one”, its files.* This can't be undone\.$/);
    expect(dialog()?.querySelector("button")?.textContent).toBe("Cancel");
    await press("Delete");
    expect(deleted).toEqual(["chat-one"]);
    expect(names()).toEqual(["chat-two"]);
    expect(dialog()).toBe(null);
    expect(page.notice.value).toBe("“About chat-one” was deleted.");
  });

  it("stays if the question is not confirmed", async () => {
    await opened("/c/chat-two");
    draw();
    await press("Delete About chat-one");
    await press("Cancel");
    expect([dialog(), deleted, names()]).toEqual([null, [], ["chat-one", "chat-two"]]);
  });

  it("asks for its deletion on the key Delete on its link, which announces the key", async () => {
    await opened("/c/chat-two");
    draw();
    const link = root.querySelector("a[href='/c/chat-one']");
    expect(link?.getAttribute("aria-keyshortcuts")).toBe("Delete");
    const key = new KeyboardEvent("keydown", { key: "Delete", bubbles: true, cancelable: true });
    act(() => void link?.dispatchEvent(key));
    expect(dialog()).not.toBe(null);
  });

  it("stays with the reason if the server refuses, and disappears if another device was faster", async () => {
    refusals = ["busy", "conversation_deleted"];
    await opened("/c/chat-two");
    draw();
    await press("Delete About chat-one");
    await press("Delete");
    expect(dialog()?.querySelector("[role=alert]")?.textContent).toBe("Not sent yet, retrying…");
    expect(names()).toContain("chat-one");
    await press("Delete");
    expect(names()).toEqual(["chat-two"]);
  });

  it("disappears at the next read of the list if it was deleted without an event here", async () => {
    await opened("/c/chat-two");
    listed = ["chat-two"];
    socket.say({ frame: "watching", expires_at: 0 });
    await settle();
    expect(names()).toEqual(["chat-one", "chat-two"]);
    clock.pass(5_000);
    await settle();
    expect(names()).toEqual(["chat-two"]);
  });
});

describe("a conversation that is deleted elsewhere", () => {
  it.each(["events", "feed"] as const)("is gone from the view and the list by a frame of %s", async (frame) => {
    await opened("/");
    page.current.value.say("go");
    const { name } = page.current.value;
    socket.say({ ...opening("m1", "go"), conversation: name });
    listed = [name];
    await page.list.load();
    const events = [{ type: "conv.status", route: "", ts: "", data: { state: "deleted" } }];
    socket.say({ frame, conversation: name, n: 9, prev: 1, events });
    expect(phase()).toBe("deleted");
    expect(page.current.value.store.value.thread.turns).toEqual([]);
    expect(names()).not.toContain(name);
    await page.list.load();
    expect(names()).not.toContain(name);
  });

  it("shows at its address that it is deleted, and offers to move the draft", async () => {
    await opened("/c/chat-one");
    page.current.value.composer.write("and the rest?");
    sendDeletion("feed");
    draw();
    expect(root.querySelector(".blank p")?.textContent).toBe("This conversation was deleted.");
    await press("Start a new conversation with your draft");
    expect(page.current.value.name).not.toBe("chat-one");
    expect(page.current.value.composer.draft.value.text).toBe("and the rest?");
  });

  it("keeps the text of a late message", async () => {
    await opened("/");
    const { name } = page.current.value;
    page.current.value.say("one more thing");
    const messageId = String(socket.asked("send")[0]?.message_id);
    socket.say({
      frame: "error",
      code: "conversation_deleted",
      message: "",
      message_id: messageId,
      conversation: name,
    });
    expect(phase()).toBe("deleted");
    draw();
    expect(button("Start a new conversation with your draft")).toBeTruthy();
  });
});

describe("all data of a user", () => {
  it("is erased only when the word is typed", async () => {
    await opened("/c/chat-one");
    draw();
    act(() => page.askToErase());
    expect(button("Delete all").disabled).toBe(true);
    const field = dialog()?.querySelector("input") as HTMLInputElement;
    act(() => {
      field.value = "Delete ";
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    });
    await press("Delete all");
    expect([erased, names(), page.route.value.is]).toEqual([1, [], "new"]);
    expect(page.notice.value).toBe("All your data is being deleted.");
  });

  it("is exported page by page, each a line of JSON", async () => {
    const asked: unknown[] = [];
    const nexts = ["two", ""];
    const counts: number[] = [];
    const exported = await exportAll(
      {
        exportMe: async (query) => {
          asked.push(query);
          return { next: nexts.shift() ?? "", turns: [asked.length] };
        },
      },
      (pages) => counts.push(pages),
    );
    expect(asked).toEqual([{}, { after: "two" }]);
    expect(counts).toEqual([1, 2]);
    expect(
      exported
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).turns),
    ).toEqual([[1], [2]]);
  });
});
