// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ApiError, type HttpApi } from "../../src/api/index.ts";
import type { AuthSession, PageConfig } from "../../src/auth/index.ts";
import type { Dial } from "../../src/client/index.ts";
import { branchPoints } from "../../src/thread/branches.ts";
import type { Message, Turn } from "../../src/thread/thread.ts";
import { editMessage, runAgain } from "../../src/ui/branches/branch_off.ts";
import { askToFork } from "../../src/ui/branches/fork.ts";
import { PastReader } from "../../src/ui/branches/past_reader.ts";
import { switchBranch } from "../../src/ui/branches/switch_branch.ts";
import { Confirm } from "../../src/ui/erase/confirm.tsx";
import { Conversations } from "../../src/ui/list/conversation_rows.tsx";
import { openSettings } from "../../src/ui/settings/settings.ts";
import { Page } from "../../src/ui/store/page.ts";
import { branchWords as words } from "../../src/words/en/branches.ts";
import { ending, opening, ScriptedClock, ScriptedSocket, scriptedServices, settle } from "./scripted.ts";

const NOW = Date.parse("2026-11-25T09:00:00Z");

interface Asked {
  readonly call: string;
  readonly conversation: string;
  readonly body?: unknown;
}

/** A socket for each conversation that is connected. */
let sockets: ScriptedSocket[];
let clock: ScriptedClock;
let root: HTMLElement;
let page: Page;
let address: string;
/** The calls to the API that change something or that a branch needs. */
let asked: Asked[];
let refusals: Record<string, string[]>;
let effects: { tool: string; title: string; status: string }[];
let forks: { conversation: string; n: number; title: string; begun_at: string }[];
let listed: { conversation: string; branch_of: string; state: string; at: string }[];
/** The names that forks were made under, and the log that each continues. */
let tree: { conversation: string; origin: string; n: number }[];
let names: number;

function note(call: string, conversation: string, body?: unknown): void {
  const code = refusals[call]?.shift();
  if (code) throw new ApiError({ status: 409, code, detail: "" });
  asked.push({ call, conversation, ...(body !== undefined && { body }) });
}

const rows = () =>
  listed.map(({ conversation, branch_of, state, at }) => ({
    conversation,
    branch_of,
    title: "Herons",
    state,
    waits_for: "",
    started_at: "",
    last_activity_at: at,
    turns: 1,
    unread_n: 0,
    n: 5,
    active_n: 5,
  }));

/** A prompt with its turn, and a second one that runs or has ended. */
const frames = (conversation: string) =>
  [opening("m1", "How old?"), ending(2, "Fifteen years.")].map((frame) => ({ ...frame, conversation }));

const api = {
  listAll: async () => ({ items: rows(), next: "" }),
  readLimits: async () => ({ scopes: [] }),
  readEvents: async (conversation: string) => {
    note("events", conversation);
    return { events: frames(conversation), first_n: 1, more: false, turns_before: 0 };
  },
  listEffects: async (conversation: string, query: unknown) => {
    note("effects", conversation, query);
    return { items: effects, more: false };
  },
  makeFork: async (conversation: string, body: { conversation: string; branch?: boolean }) => {
    note("fork", conversation, body);
    if (body.branch) tree.push({ conversation: body.conversation, origin: conversation, n: 1 });
    return { conversation: body.conversation, origin: conversation, n: 1, branch_of: "", title: "Herons" };
  },
  listBranches: async (conversation: string) => {
    note("branches", conversation);
    return { items: tree.map((one) => ({ ...one, title: "Herons", begun_at: "", last_activity_at: "" })), more: false };
  },
  listForks: async (conversation: string) => {
    note("forks", conversation);
    return { items: forks, more: false };
  },
  deleteConversation: async (conversation: string, query: unknown) => note("delete", conversation, query),
};

const dial: Dial = {
  open: (handlers) => {
    const socket = new ScriptedSocket();
    sockets.push(socket);
    return socket.dial.open(handlers);
  },
};
const accept = async () => {
  await settle();
  for (const socket of sockets) socket.accept();
  await settle();
};
const sent = (action: string) => sockets.flatMap((socket) => socket.asked(action));

async function opened(at = "/c/chat-one"): Promise<void> {
  address = at;
  page = new Page(
    {
      config: { stage: "local", inspect: "owner", uploads: true } as unknown as PageConfig,
      auth: { user: { name: "ada", subject: "ada", role: "user" }, onExpired: () => {} } as unknown as AuthSession,
      api: api as unknown as HttpApi,
      settings: openSettings(null),
      services: scriptedServices(new ScriptedSocket(), { clock, api: api as never, dial }),
      history: {
        address: () => ({ path: address, query: "" }),
        push: (to) => {
          address = to;
        },
        replace: (to) => {
          address = to;
        },
        back: () => {},
      },
      random: (bytes) => {
        names += 1;
        bytes.fill(names);
      },
      signIn: () => Promise.resolve(),
      debug: false,
    },
    "",
  );
  await settle();
  await accept();
  asked = [];
}

const here = () => page.current.value;
const turn = () => here().store.value.thread.turns[0] as Turn;
const prompt = () => turn().prompts[0] as Message;
const kinds = () => asked.map(({ call }) => call);
const bodies = (call: string) => asked.filter((one) => one.call === call).map(({ body }) => body);
const draw = () =>
  act(() =>
    render(
      <>
        <Conversations page={page} />
        <PastReader page={page} conversation={here()} />
        <Confirm page={page} />
      </>,
      root,
    ),
  );
const press = async (name: string) => {
  const button = [...root.querySelectorAll("button")].find((one) => one.textContent === name);
  await act(async () => {
    button?.click();
    await settle();
  });
};
const dialog = () => root.querySelector<HTMLElement>("dialog");
const links = () => [...root.querySelectorAll(".rows a")].map((link) => link.getAttribute("href"));

beforeEach(() => {
  sockets = [];
  clock = new ScriptedClock(NOW);
  root = document.createElement("div");
  document.body.replaceChildren(root);
  refusals = {};
  asked = [];
  effects = [];
  forks = [];
  names = 0;
  listed = [{ conversation: "chat-one", branch_of: "", state: "idle", at: "2026-11-25T08:00:00Z" }];
  tree = [{ conversation: "chat-one", origin: "", n: 0 }];
});

afterEach(() => {
  act(() => render(null, root));
});

describe("an edited message", () => {
  it("forks before the message, and is sent there under a new id", async () => {
    await opened();
    expect(await editMessage(page, here(), prompt(), "How old, at most?")).toBe("");
    const { name } = here();
    expect(name).not.toBe("chat-one");
    expect(address).toBe(`/c/${name}`);
    expect(asked.slice(0, 3)).toEqual([
      { call: "effects", conversation: "chat-one", body: { kind: "batch", at: "1" } },
      {
        call: "fork",
        conversation: "chat-one",
        body: { conversation: name, point: { kind: "message", at: "m1", before: true }, branch: true },
      },
      { call: "events", conversation: name },
    ]);
    expect(here().store.value.outbox.map((one) => one.text)).toEqual(["How old, at most?"]);
    await accept();
    const [message] = sent("send");
    expect([message?.conversation, message?.text]).toEqual([name, "How old, at most?"]);
    expect(message?.message_id).not.toBe("m1");
  });

  it("is one row with its origin at once, and each shows its own message", async () => {
    await opened();
    await editMessage(page, here(), prompt(), "How old, at most?");
    draw();
    expect(links()).toEqual(["/c/chat-one"]);
    expect(root.querySelector(".rows a")?.getAttribute("aria-current")).toBe("page");
    const [point] = here().past.value.points;
    expect(point).toEqual({ after: 1, ways: [["chat-one"], [here().name]], at: 1 });
  });

  it("keeps its files, which are named by their paths", async () => {
    await opened();
    const attachments = [
      { filename: "a.csv", mime: "text/csv", sizeBytes: 3, path: "fi:turn_1.user.attachments/a.csv" },
    ];
    await editMessage(page, here(), { ...prompt(), attachments }, "Again");
    await accept();
    expect(sent("send")[0]?.uploads).toEqual(["fi:turn_1.user.attachments/a.csv"]);
    expect(here().store.value.outbox[0]?.attachments).toEqual(attachments);
  });

  it("finds the branch of an earlier try, and stays until it is sent", async () => {
    await opened();
    const [before, one] = [here(), prompt()];
    before.edits.set(new Map([["m1", { text: "At most?", open: true, changed: true }]]));
    refusals.events = ["busy"];
    expect(await editMessage(page, before, one, "At most?")).toBe("api_unreachable");
    expect([here(), before.edits.value.size, page.holds]).toEqual([before, 1, true]);
    expect(await editMessage(page, before, one, "At most?")).toBe("");
    const [first, second] = bodies("fork");
    expect(second).toEqual(first);
    expect(before.edits.value.size).toBe(0);
  });

  it("is kept when a request is refused, with the code", async () => {
    await opened();
    refusals.fork = ["fork_too_deep"];
    expect(await editMessage(page, here(), prompt(), "At most?")).toBe("fork_too_deep");
    refusals.effects = ["api_unreachable"];
    expect(await editMessage(page, here(), prompt(), "At most?")).toBe("api_unreachable");
    expect(kinds()).toEqual(["effects"]);
  });
});

describe("the question before a branch", () => {
  it("names what was done, and nothing is made before Go on", async () => {
    effects = [
      { tool: "mail.send", title: "to: ada@example.com", status: "ok" },
      { tool: "\u202eevil", title: "<b>x</b>", status: "unverified" },
    ];
    await opened();
    expect(await editMessage(page, here(), prompt(), "At most?")).toBe("");
    draw();
    expect(dialog()?.querySelector("h2")?.textContent).toBe(words.doneTitle);
    const lines = [...(dialog()?.querySelectorAll("li") ?? [])];
    expect(lines[0]?.textContent).toBe("mail.send: to: ada@example.com");
    expect(lines[1]?.textContent).toContain("<b>x</b> (may have happened)");
    expect(lines[1]?.textContent).not.toContain("\u202e");
    expect(dialog()?.textContent).not.toContain("can't be undone");
    expect(kinds()).not.toContain("fork");
    await press("Cancel");
    expect([dialog(), here().name]).toEqual([null, "chat-one"]);
    await editMessage(page, here(), prompt(), "At most?");
    draw();
    await press(words.goOn);
    expect([dialog(), here().name === "chat-one"]).toEqual([null, false]);
  });

  it.each([
    [words.runOn, 0],
    [words.stop, 1],
  ])("asks about a turn that runs: %s", async (choice, stops) => {
    await opened();
    const origin = here();
    origin.store.update({ running: true });
    await editMessage(page, origin, prompt(), "At most?");
    draw();
    expect(dialog()?.querySelector("h2")?.textContent).toBe(words.runsTitle);
    await press(choice);
    expect(here()).not.toBe(origin);
    await accept();
    const stopped = sent("event").filter((one) => one.kind === "stop");
    expect(stopped.map((one) => one.conversation)).toEqual(Array(stops).fill("chat-one"));
    expect(origin.store.value.stopping).toBe(stops === 1);
  });

  it("stays with the reason if the branch is refused", async () => {
    effects = [{ tool: "mail.send", title: "", status: "ok" }];
    await opened();
    await runAgain(page, here(), turn());
    draw();
    refusals.fork = ["fork_too_deep"];
    await press(words.goOn);
    expect(dialog()?.querySelector("[role=alert]")?.textContent).not.toBe("");
    await press(words.goOn);
    expect(dialog()).toBe(null);
  });
});

it("a turn runs again with its own messages, before its first one", async () => {
  await opened();
  const { turnId } = turn();
  expect(await runAgain(page, here(), turn())).toBe("");
  expect(asked[1]?.body).toMatchObject({ point: { kind: "turn", at: turnId, before: true }, branch: true });
  expect(here().store.value.outbox.map((one) => one.text)).toEqual(["How old?"]);
});

describe("a fork", () => {
  it("is a conversation of its own, made after a question that says what it has", async () => {
    await opened();
    askToFork(page, "chat-one", { turnId: "turn_1", number: 5 });
    draw();
    expect(dialog()?.textContent).toContain(
      "A new conversation with everything up to the end of turn 5. Files are shared, nothing is copied.",
    );
    await press(words.forkAct);
    const point = { kind: "turn", at: "turn_1" };
    expect(bodies("fork")).toEqual([{ conversation: here().name, point }]);
    expect([here().name === "chat-one", dialog()]).toEqual([false, null]);
  });

  it("may begin after a round", async () => {
    await opened();
    askToFork(page, "chat-one", { decidedN: 7, number: 2, round: 3 });
    draw();
    expect(dialog()?.textContent).toContain("round 3 of turn 2");
    await press(words.forkAct);
    expect(bodies("fork")).toEqual([{ conversation: here().name, point: { kind: "round", at: "7" } }]);
  });
});

describe("the branches of the shown conversation", () => {
  it("are read with its forks, and again when another one appears in the list", async () => {
    await opened();
    draw();
    await settle();
    expect(kinds()).toEqual(["branches", "forks"]);
    expect(here().past.value.points).toEqual([]);
    tree.push({ conversation: "chat-two", origin: "chat-one", n: 1 });
    listed.push({ conversation: "chat-two", branch_of: "chat-one", state: "in_progress", at: "2026-11-25T08:30:00Z" });
    const event = { type: "conv.status", route: "", ts: "2026-11-25T08:30:00Z", data: { state: "in_progress" } };
    act(() => sockets[0]?.say({ frame: "feed", conversation: "chat-two", n: 6, events: [event] }));
    await act(async () => {
      clock.pass(1_000);
      await settle();
    });
    expect(here().past.value.points[0]?.ways).toEqual([["chat-one"], ["chat-two"]]);
    expect([...here().past.value.running]).toEqual(["chat-two"]);
    expect(links()).toEqual(["/c/chat-two"]);
    expect(root.querySelector(".rows .lamp.live")).not.toBe(null);
  });

  it("are shown at once in the branch that a switch opens", async () => {
    tree.push({ conversation: "chat-two", origin: "chat-one", n: 1 });
    await opened();
    draw();
    await settle();
    const [point] = here().past.value.points;
    if (!point) throw new Error("no point");
    switchBranch(page, here(), point, 1);
    expect(address).toBe("/c/chat-two");
    expect(here().past.value.points[0]?.at).toBe(1);
    expect(here().past.value.points).toEqual(branchPoints(here().past.value.branches, "chat-two"));
  });
});

describe("the deletion of a conversation with branches", () => {
  beforeEach(() => {
    listed.push({ conversation: "chat-two", branch_of: "chat-one", state: "idle", at: "2026-11-25T08:30:00Z" });
  });

  it("says so, and sends the root", async () => {
    await opened("/c/chat-two");
    draw();
    act(() => page.askToDelete("chat-two"));
    expect(dialog()?.textContent).toContain("Its 1 branch will be deleted, too.");
    await press("Delete");
    expect(asked.at(-1)).toEqual({ call: "delete", conversation: "chat-one", body: {} });
    expect([links(), here().store.value.phase]).toEqual([[], "deleted"]);
  });

  it("asks once more if other conversations continue it", async () => {
    await opened();
    draw();
    refusals.delete = ["has_forks"];
    act(() => page.askToDelete("chat-one"));
    await press("Delete");
    expect(dialog()?.textContent).toContain("Other conversations continue this one.");
    await press("Cancel");
    expect(links()).toEqual(["/c/chat-two"]);
    refusals.delete = ["has_forks"];
    act(() => page.askToDelete("chat-one"));
    await press("Delete");
    await press("Delete all");
    expect(asked.at(-1)).toEqual({ call: "delete", conversation: "chat-one", body: { cascade: true } });
    expect([links(), dialog()]).toEqual([[], null]);
  });
});
