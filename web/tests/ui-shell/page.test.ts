import { beforeEach, describe, expect, it } from "vitest";
import { ApiError, type HttpApi } from "../../src/api/index.ts";
import type { AuthSession, Kept, PageConfig } from "../../src/auth/index.ts";
import { threadOf } from "../../src/ui/route.ts";
import { DEFAULTS, openSettings } from "../../src/ui/settings/settings.ts";
import { Page } from "../../src/ui/store/page.ts";
import { opening, ScriptedClock, ScriptedSocket, settle } from "./scripted.ts";

/** A history like the browser's. */
class ScriptedHistory {
  readonly entries: string[];
  at = 0;
  page: Page | null = null;

  constructor(address: string) {
    this.entries = [address];
  }

  get shown(): string {
    return this.entries[this.at] ?? "";
  }

  readonly parts = {
    address: () => {
      const [path = "", query = ""] = this.shown.split("?");
      return { path, query };
    },
    push: (address: string) => {
      this.entries.splice(this.at + 1, this.entries.length, address);
      this.at += 1;
    },
    replace: (address: string) => {
      this.entries[this.at] = address;
    },
    back: () => {
      this.at -= 1;
      this.page?.follow();
    },
  };
}

let clock: ScriptedClock;
let sockets: ScriptedSocket;
let expire: () => void;
let frames: (() => void)[];
/** The arguments of the last sign-in. */
let left: [route: string, kept: Kept][];
let signsIn: () => Promise<unknown>;

const config = { stage: "local", inspect: "owner", uploads: true } as unknown as PageConfig;

function opened(address = "/", role = "user", inspect = "owner"): { page: Page; history: ScriptedHistory } {
  const history = new ScriptedHistory(address);
  const missing = new ApiError({ status: 404, code: "not_found", detail: "" });
  const api = {
    listAll: async () => ({ items: [], next: "" }),
    readEvents: () => Promise.reject(missing),
    beginUpload: () => Promise.reject(missing),
    getUpload: () => Promise.reject(missing),
    readLimits: async () => ({ scopes: [] }),
    search: async () => ({ items: [], next: "", behind: false }),
  };
  const auth = {
    user: { name: "ada", subject: "ada", role },
    onExpired: (run: () => void) => {
      expire = run;
    },
  };
  const page = new Page(
    {
      config: { ...config, inspect } as PageConfig,
      auth: auth as unknown as AuthSession,
      api: api as unknown as HttpApi,
      settings: openSettings(null),
      services: {
        api,
        clock,
        dial: sockets.dial,
        credential: { expiresAtS: () => Number.POSITIVE_INFINITY, ticket: async () => "t" },
        frame: (run) => frames.push(run),
        timezone: "",
        measure: async () => "",
        post: async () => undefined,
      },
      history: history.parts,
      random: (bytes) => crypto.getRandomValues(bytes),
      signIn: (route, kept) => {
        left.push([route, kept]);
        return signsIn();
      },
      debug: false,
    },
    "There is no such page.",
  );
  history.page = page;
  return { page, history };
}

beforeEach(() => {
  clock = new ScriptedClock();
  sockets = new ScriptedSocket();
  frames = [];
  left = [];
  signsIn = () => new Promise(() => undefined);
});

describe("a session that has ended", () => {
  const writeTwice = () => {
    const { page } = opened("/c/chat-one");
    page.current.value.composer.write("What I was about to say.");
    page.go({ is: "new" });
    page.current.value.composer.write("Another thing.");
    expire();
    return page;
  };

  it("signs in again with the drafts of all conversations, without a warning about leaving", () => {
    const page = writeTwice();
    expect([page.signedOut.value, page.holds]).toEqual([true, true]);
    page.signIn();
    const drafts = { "chat-one": "What I was about to say.", "": "Another thing." };
    expect(left).toEqual([["/", { subject: "ada", drafts }]]);
    expect(page.holds).toBe(false);
    const { page: next } = opened("/");
    next.restore(drafts);
    expect(next.current.value.composer.draft.value.text).toBe("Another thing.");
    next.go(threadOf("chat-one"));
    expect(next.current.value.composer.draft.value.text).toBe("What I was about to say.");
  });

  it("stays unchanged if the sign-in cannot be reached", async () => {
    const page = writeTwice();
    signsIn = () => Promise.reject(new Error("away"));
    page.signIn();
    await settle();
    expect([page.notice.value, page.holds]).toEqual(["Sign-in can't be reached. Try again in a moment.", true]);
  });
});

describe("an unknown address", () => {
  it("opens a new conversation with a notice, which disappears with the next step", () => {
    const { page, history } = opened("/nowhere");
    expect(page.route.value).toEqual({ is: "new" });
    expect(history.entries).toEqual(["/"]);
    expect(page.notice.value).toBe("There is no such page.");
    page.go({ is: "search", query: "" });
    expect(page.notice.value).toBe("");
  });
});

describe("a new conversation", () => {
  it("gets its address with its first message, instead of /", () => {
    const { page, history } = opened();
    const { name } = page.current.value;
    page.current.value.say("go");
    expect(history.entries).toEqual([`/c/${name}`]);
    expect(page.current.value.name).toBe(name);
  });

  it("has another name than the one before", () => {
    const { page } = opened();
    const { name } = page.current.value;
    page.current.value.say("go");
    page.begin();
    expect(page.current.value.name).not.toBe(name);
    expect(page.route.value.is).toBe("new");
  });

  it("is not started twice", () => {
    const { page, history } = opened();
    const { name } = page.current.value;
    page.begin();
    expect(page.current.value.name).toBe(name);
    expect(history.entries).toHaveLength(1);
  });

  it("keeps its address if the message is sent when the user is elsewhere", () => {
    const { page, history } = opened();
    const before = page.current.value;
    page.go({ is: "search", query: "x" });
    before.say("go");
    expect(history.shown).toBe("/search?q=x");
  });
});

describe("a conversation that is left", () => {
  it("keeps its draft", () => {
    const { page } = opened();
    const first = page.current.value;
    first.composer.write("half a thought");
    page.go({ is: "thread", conversation: "chat-two", place: null, file: "" });
    page.go({ is: "new" });
    expect(page.current.value).toBe(first);
    expect(page.current.value.composer.draft.value.text).toBe("half a thought");
  });

  it("is kept in memory with an unsent text, however many are opened after it", async () => {
    const { page } = opened("/c/chat-one");
    page.current.value.composer.write("half a thought");
    for (let at = 0; at < 12; at += 1) {
      page.go({ is: "thread", conversation: `chat-${at}`, place: null, file: "" });
      await settle();
    }
    expect(page.conversations.length).toBeLessThanOrEqual(9);
    expect(page.conversations.map((one) => one.name)).toContain("chat-one");
    expect(page.holds).toBe(true);
  });
});

it("is kept in memory with a refused message", async () => {
  const { page } = opened();
  const { name } = page.current.value;
  sockets.accept();
  page.current.value.say("go");
  const id = String(sockets.asked("send")[0]?.message_id);
  sockets.say({ frame: "error", code: "bad_event", message: "no", message_id: id, conversation: name });
  for (const run of frames.splice(0)) run();
  for (let count = 0; count < 12; count += 1) {
    page.go({ is: "thread", conversation: `chat-${count}`, place: null, file: "" });
    await settle();
  }
  page.go({ is: "thread", conversation: name, place: null, file: "" });
  expect(page.current.value.store.value.outbox).toMatchObject([{ text: "go" }]);
});

describe("an overlay over a thread", () => {
  it("closes with one step back if the user came from the thread", () => {
    const { page, history } = opened("/c/chat-one");
    page.go({ is: "thread", conversation: "chat-one", place: null, file: "fi:a.md" });
    page.closeTo({ is: "thread", conversation: "chat-one", place: null, file: "" });
    expect(history.at).toBe(0);
    expect(page.route.value).toMatchObject({ conversation: "chat-one", file: "" });
  });

  it("closes to the thread if it was the first address", () => {
    const { page, history } = opened("/c/chat-one/f/fi%3Aa.md");
    page.closeTo({ is: "thread", conversation: "chat-one", place: null, file: "" });
    expect(history.entries).toEqual(["/c/chat-one"]);
  });

  it("keeps the conversation below the search", () => {
    const { page } = opened("/c/chat-one");
    page.go({ is: "search", query: "x" });
    expect(page.current.value.name).toBe("chat-one");
    page.closeSearch();
    expect(page.route.value).toMatchObject({ is: "thread", conversation: "chat-one" });
  });
});

it("the inspector is available to the users that the stage names", () => {
  expect(opened("/", "user", "owner").page.mayInspect).toBe(true);
  expect(opened("/", "user", "admin").page.mayInspect).toBe(false);
  expect(opened("/", "project_admin", "admin").page.mayInspect).toBe(true);
  expect(opened("/", "project_admin", "none").page.mayInspect).toBe(false);
});

it("the end of a session is shown", () => {
  const { page } = opened();
  expire();
  expect(page.signedOut.value).toBe(true);
});

it("a message that is not in the log counts as unsent text", () => {
  const { page } = opened();
  sockets.accept();
  page.current.value.say("go");
  expect(page.holds).toBe(true);
  const id = String(sockets.asked("send")[0]?.message_id);
  const { name } = page.current.value;
  sockets.say({ frame: "ack", message_id: id, conversation: name, n: 1, kind: "prompt" });
  sockets.say({ ...opening(id, "go"), conversation: name });
  for (const run of frames.splice(0)) run();
  expect(page.holds).toBe(false);
});

describe("the settings", () => {
  function storageOf(stored: string | null) {
    const kept = { text: stored };
    const setItem = (_key: string, value: string) => {
      kept.text = value;
    };
    return { kept, storage: { getItem: () => kept.text, setItem } };
  }

  it.each([null, "", "[]", "null", "7", '{"theme": "blue", "letters": "yes"}'])(
    "are the usual ones for %s",
    (stored) => {
      expect(openSettings(storageOf(stored).storage).value).toEqual(DEFAULTS);
    },
  );

  it("are the only stored data", () => {
    const { kept, storage: one } = storageOf(null);
    openSettings(one).update({ theme: "dark" });
    expect(JSON.parse(kept.text ?? "")).toEqual({ ...DEFAULTS, theme: "dark" });
    expect(openSettings(one).value.theme).toBe("dark");
  });
});
