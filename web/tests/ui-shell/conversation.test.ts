import { beforeEach, describe, expect, it } from "vitest";
import { ApiError, type EventPage } from "../../src/api/index.ts";
import { Conversation, type Services } from "../../src/ui/store/conversation.ts";
import { batch, ending, opening, ScriptedClock, ScriptedSocket, settle, TURN } from "./scripted.ts";

let clock: ScriptedClock;
let socket: ScriptedSocket;
let pages: (() => Promise<EventPage>)[];
let asked: unknown[];
let feed: string[];
let frames: (() => void)[];

function services(): Services {
  return {
    clock,
    dial: socket.dial,
    credential: { expiresAtS: () => Number.POSITIVE_INFINITY, ticket: async () => "t" },
    timezone: "Europe/Zurich",
    frame: (run) => frames.push(run),
    api: {
      readEvents: (name, query) => {
        asked.push([name, query]);
        const page = pages.shift();
        return page ? page() : Promise.reject(new ApiError({ status: 404, code: "not_found", detail: "" }));
      },
      beginUpload: async (_name, request) => ({
        upload: `up_${request.filename}`,
        url: "",
        fields: {},
        expires_in_s: 600,
      }),
      getUpload: async () => ({ state: "ready" }),
    },
    measure: async () => "",
    post: async () => undefined,
    unreadN: () => 0,
    said: () => undefined,
    usageChanged: () => undefined,
    gone: () => undefined,
    onFeed: (effect) => feed.push(effect.frame.frame),
  };
}

function page(...events: object[]): () => Promise<EventPage> {
  return async () => ({ events, first_n: 1, more: false }) as unknown as EventPage;
}

/** Render the next frame. */
function draw(): void {
  for (const run of frames.splice(0)) run();
}

function begun(name = "chat-one", fresh = true): Conversation {
  const conversation = new Conversation(name, services(), fresh);
  conversation.show();
  socket.accept();
  return conversation;
}

beforeEach(() => {
  clock = new ScriptedClock();
  socket = new ScriptedSocket();
  [pages, asked, feed, frames] = [[], [], [], []];
});

describe("a new conversation", () => {
  it("watches the feed, and sends no other request", () => {
    begun();
    expect(socket.asked("watch")).toHaveLength(1);
    expect(socket.asked("resume")).toHaveLength(0);
    expect(asked).toEqual([]);
  });

  it("shows a message at once, and then the log's own one in its place", () => {
    const conversation = begun();
    conversation.say("go");
    const id = String(socket.asked("send")[0]?.message_id);
    expect(conversation.store.value.outbox).toMatchObject([{ messageId: id, n: 0, text: "go", kind: "prompt" }]);
    socket.say({ frame: "ack", message_id: id, conversation: "chat-one", n: 1, kind: "prompt" });
    draw();
    expect(conversation.store.value.outbox).toMatchObject([{ messageId: id, n: 1 }]);
    socket.say(opening(id, "go"));
    draw();
    expect(conversation.store.value.outbox).toEqual([]);
    expect(conversation.store.value.running).toBe(true);
    expect(conversation.store.value.thread.turns[0]?.prompts[0]?.text).toBe("go");
  });

  it("shows the first text of a lane at once, and folds later effects once per frame", () => {
    const conversation = begun();
    let changes = 0;
    conversation.store.subscribe(() => {
      changes += 1;
    });
    socket.say(opening("m1", "go"));
    expect(changes).toBe(0);
    const say = (off: number) =>
      socket.say({ frame: "delta", conversation: "chat-one", claim: 1, lane: "thinking.0", off, text: "a" });
    const shown = () => conversation.store.value.thread.turns[0]?.rounds[0]?.thinking.text;
    say(0);
    expect(shown()).toBe("a");
    expect(changes).toBe(1);
    for (let off = 1; off < 20; off += 1) say(off);
    expect(shown()).toBe("a");
    draw();
    expect(changes).toBe(2);
    expect(shown()).toBe("a".repeat(20));
  });
});

describe("an opened conversation", () => {
  it("shows its newest turns, and continues after them", async () => {
    pages.push(page(opening("m1", "go"), ending(2, "Done.")));
    const conversation = begun("chat-one", false);
    expect(conversation.store.value.phase).toBe("loading");
    await settle();
    expect(conversation.store.value).toMatchObject({ phase: "ready", running: false, earlier: "none" });
    expect(conversation.store.value.thread.turns[0]?.answers.at(-1)?.text).toBe("Done.");
    socket.accept();
    expect(socket.asked("resume")).toMatchObject([{ after: 2 }]);
  });

  it("shows that it is missing if the server says so", async () => {
    const conversation = begun("chat-one", false);
    await settle();
    expect(conversation.store.value.phase).toBe("missing");
  });

  it("is read again after a while if the server does not answer", async () => {
    pages.push(() => Promise.reject(new ApiError({ status: 0, code: "api_unreachable", detail: "" })));
    pages.push(page(opening("m1", "go")));
    const conversation = begun("chat-one", false);
    await settle();
    expect(conversation.store.value.phase).toBe("failed");
    clock.pass(2_000);
    await settle();
    expect(conversation.store.value).toMatchObject({ phase: "ready", running: true });
  });

  it("is read once, however often it is opened meanwhile", async () => {
    pages.push(page(opening("m1", "go")));
    const conversation = begun("chat-one", false);
    conversation.wake();
    conversation.leave();
    conversation.show();
    await settle();
    expect(asked).toHaveLength(1);
    expect(conversation.store.value.phase).toBe("ready");
  });

  it("is not read again if the server's format is newer", async () => {
    pages.push(page({ ...opening("m1", "go"), v: 9 }));
    const conversation = begun("chat-one", false);
    await settle();
    expect(conversation.store.value).toMatchObject({ phase: "failed", outdated: true });
    clock.pass(60_000);
    expect(asked).toHaveLength(1);
  });

  it("reads older pages before the loaded ones", async () => {
    const older = {
      ...ending(2, "First."),
      events: [...opening("m0", "before", 1).events, ...ending(2, "First.").events],
    };
    const newer = "turn_20261125T091000_ab12cd";
    const second = JSON.parse(JSON.stringify(opening("m1", "go", 3)).replaceAll(TURN, newer));
    pages.push(async () => ({ events: [second], first_n: 3, more: true }) as unknown as EventPage);
    pages.push(async () => ({ events: [older], first_n: 1, more: false }) as unknown as EventPage);
    const conversation = begun("chat-one", false);
    await settle();
    await conversation.loadEarlier();
    expect(asked[1]).toEqual(["chat-one", { before: 3, turns: 20 }]);
    expect(conversation.store.value.earlier).toBe("none");
    expect(conversation.store.value.thread.turns.map((turn) => turn.turnId)).toEqual([TURN, newer]);
  });
});

it("has nothing before its beginning if it replaced another one", async () => {
  pages.push(async () => ({ events: [opening("m1", "go", 3)], first_n: 3, more: true }) as unknown as EventPage);
  const conversation = begun("chat-one", false);
  await settle();
  socket.accept();
  socket.say({ frame: "error", code: "resume_beyond_end", message: "", conversation: "chat-one" });
  draw();
  expect(conversation.store.value).toMatchObject({ earlier: "none", alert: null });
  expect(conversation.store.value.thread.turns).toEqual([]);
});

describe("a message that is not accepted", () => {
  it("is kept with the reason", () => {
    const conversation = begun();
    conversation.say("go");
    const id = String(socket.asked("send")[0]?.message_id);
    socket.say({ frame: "error", code: "bad_event", message: "no", message_id: id, conversation: "chat-one" });
    draw();
    expect(conversation.store.value.problems.get(id)).toEqual({ code: "bad_event", message: "no", trying: false });
    expect(conversation.store.value.outbox).toHaveLength(1);
  });

  it("is sent again under a new id, and then hidden", () => {
    const conversation = begun();
    conversation.say("go");
    const [first] = conversation.store.value.outbox;
    if (!first) throw new Error("not drawn");
    conversation.sendAgain(first);
    expect(conversation.store.value.discarded.has(first.messageId)).toBe(true);
    expect(conversation.store.value.outbox).toMatchObject([{ text: "go" }]);
    expect(conversation.store.value.outbox[0]?.messageId).not.toBe(first.messageId);
  });

  it("blocks the composer for as long as the server requires", () => {
    const conversation = begun();
    conversation.say("go");
    const id = String(socket.asked("send")[0]?.message_id);
    const refusal = { frame: "error" as const, code: "rate_limited", message: "", message_id: id };
    socket.say({ ...refusal, conversation: "chat-one", retry_after_s: 40, retryable: true });
    draw();
    expect(conversation.store.value.blockedUntil).toBe(clock.nowMs() + 40_000);
    expect(conversation.store.value.problems.get(id)?.trying).toBe(true);
  });

  it("is shown as being retried only after 20 s", () => {
    const conversation = begun();
    conversation.say("go");
    const [message] = conversation.store.value.outbox;
    clock.pass(19_000);
    expect(conversation.store.value.problems.size).toBe(0);
    clock.pass(2_000);
    expect(conversation.store.value.problems.get(message?.messageId ?? "")?.trying).toBe(true);
  });
});

describe("a message whose files the server no longer has", () => {
  async function refused(): Promise<Conversation> {
    const conversation = begun();
    conversation.composer.write("sum this");
    conversation.composer.attachments.add([new File(["x"], "a.csv")]);
    conversation.composer.submit();
    await settle();
    await refuseLast();
    return conversation;
  }

  async function refuseLast(): Promise<void> {
    const id = String(socket.asked("send").at(-1)?.message_id);
    const refusal = { frame: "error", code: "upload_missing", message: "", conversation: "chat-one" };
    socket.say({ ...refusal, message_id: id });
    draw();
    await settle();
  }

  it("is sent again automatically, once, after a new upload", async () => {
    const conversation = await refused();
    const sent = socket.asked("send");
    expect(sent).toMatchObject([{ uploads: ["up_a.csv"] }, { text: "sum this", uploads: ["up_a.csv"] }]);
    expect(conversation.store.value.outbox).toHaveLength(1);
    await refuseLast();
    expect(socket.asked("send")).toHaveLength(2);
    expect([...conversation.store.value.problems.values()]).toMatchObject([{ code: "upload_missing" }]);
  });

  it("is uploaded again on request", async () => {
    const conversation = await refused();
    await refuseLast();
    const [message] = conversation.store.value.outbox;
    if (!message) throw new Error("not drawn");
    conversation.sendAgain(message);
    await settle();
    expect(socket.asked("send")).toHaveLength(3);
  });
});

describe("a message with too much content", () => {
  const long = "a".repeat(40_000);

  it("returns to the composer, with the server's reason", async () => {
    const conversation = begun();
    conversation.say("a long story");
    const id = String(socket.asked("send")[0]?.message_id);
    const message = "a text has at most 10 characters";
    socket.say({ frame: "error", code: "input_too_long", message, message_id: id, conversation: "chat-one" });
    draw();
    expect(conversation.store.value.outbox).toEqual([]);
    const refusal = { code: "input_too_long", message };
    expect(conversation.composer.draft.value).toMatchObject({ text: "a long story", waits: false, refusal });
    conversation.composer.write("a story");
    expect(conversation.composer.draft.value.refusal).toBeNull();
  });

  it("stays in place if another draft is being written", () => {
    const conversation = begun();
    conversation.say("a long story");
    conversation.composer.write("next");
    const id = String(socket.asked("send")[0]?.message_id);
    socket.say({ frame: "error", code: "input_too_long", message: "", message_id: id, conversation: "chat-one" });
    draw();
    expect(conversation.composer.draft.value.text).toBe("next");
    expect(conversation.store.value.problems.get(id)).toMatchObject({ code: "input_too_long", trying: false });
  });

  it("is sent again as a file if another client could send it as text", async () => {
    const conversation = begun();
    const state = { is: "dropped", reason: "stopped" } as const;
    const message = { messageId: "m1", n: 4, kind: "followup", text: long, source: "", at: 0, attachments: [], state };
    conversation.sendAgain(message);
    await settle();
    expect(socket.asked("send")).toMatchObject([{ uploads: ["up_message.txt"] }]);
  });

  it("is refused before it is sent if it is the parameters of an edited call", async () => {
    const conversation = begun();
    expect(await conversation.answer("edit", "tc_0123456789ab", { params: { text: long } })).toBe("message_too_large");
    expect(socket.asked("edit")).toEqual([]);
  });
});

describe("a stop", () => {
  it("is shown at once, and until the turn has ended", () => {
    const conversation = begun();
    socket.say(opening("m1", "go"));
    draw();
    conversation.stop();
    conversation.stop();
    expect(conversation.store.value.stopping).toBe(true);
    expect(socket.asked("event")).toHaveLength(1);
    socket.say(ending(2, "as far as I came"));
    draw();
    expect(conversation.store.value).toMatchObject({ running: false, stopping: false });
  });

  it("is not sent while nothing runs", () => {
    begun().stop();
    expect(socket.asked("event")).toHaveLength(0);
  });
});

describe("a verdict about a call", () => {
  it("resolves when the server has accepted it", async () => {
    const conversation = begun();
    const outcome = conversation.answer("approve", "tc_0123456789ab");
    const [request] = socket.asked("approve");
    socket.say({
      frame: "ack",
      message_id: String(request?.message_id),
      conversation: "chat-one",
      n: 4,
      kind: "approved",
    });
    draw();
    expect(await outcome).toBe("");
  });

  it("resolves to the code of its refusal", async () => {
    const conversation = begun();
    const outcome = conversation.answer("approve", "tc_0123456789ab");
    refuse("approve", "approval_expired");
    expect(await outcome).toBe("approval_expired");
  });
});

/** Refuse the newest request of an action. */
function refuse(action: string, code: string): void {
  const id = String(socket.asked(action).at(-1)?.message_id);
  socket.say({ frame: "error", code, message: "", conversation: "chat-one", message_id: id });
  draw();
}

describe("a rating", () => {
  async function early(conversation: Conversation) {
    const kept: string[] = [];
    const outcome = conversation.rate(TURN, "ok", "", () => kept.push("kept"));
    refuse("feedback", "turn_open");
    await settle();
    expect(kept).toEqual(["kept"]);
    return outcome;
  }

  function accept(): void {
    const id = String(socket.asked("feedback").at(-1)?.message_id);
    socket.say({ frame: "ack", message_id: id, conversation: "chat-one", n: 3, kind: "feedback" });
    draw();
  }

  it("that comes too early is stored, and sent when the turn has ended", async () => {
    const conversation = begun();
    socket.say(opening("m1", "go"));
    draw();
    const outcome = early(conversation);
    await settle();
    clock.pass(60_000);
    expect(socket.asked("feedback")).toHaveLength(1);
    socket.say(ending(2, "Done."));
    draw();
    await settle();
    expect(socket.asked("feedback")).toHaveLength(2);
    accept();
    expect(await outcome).toBe("");
  });

  it("is sent again after a while if the turn has already ended here", async () => {
    const outcome = early(begun());
    await settle();
    clock.pass(3_000);
    await settle();
    accept();
    expect(await outcome).toBe("");
  });
});

describe("a conversation that is left", () => {
  it("closes its connection", () => {
    const conversation = begun();
    conversation.leave();
    expect(socket.isOpen).toBe(false);
  });

  it("stays connected until its messages are in the log", () => {
    const conversation = begun();
    conversation.say("go");
    conversation.leave();
    expect(socket.isOpen).toBe(true);
    const id = String(socket.asked("send")[0]?.message_id);
    socket.say({ frame: "ack", message_id: id, conversation: "chat-one", n: 1, kind: "prompt" });
    draw();
    expect(socket.isOpen).toBe(false);
  });

  it("continues from its position when it is opened again", () => {
    const conversation = begun();
    socket.say(opening("m1", "go"));
    draw();
    conversation.leave();
    conversation.show();
    socket.accept();
    expect(socket.asked("resume").at(-1)).toMatchObject({ after: 1 });
    expect(conversation.store.value.thread.turns).toHaveLength(1);
  });
});

describe("a restored connection", () => {
  it("shows how many turns ended meanwhile", () => {
    const conversation = begun();
    socket.say(opening("m1", "go"));
    draw();
    socket.break();
    clock.pass(5_000);
    socket.accept();
    socket.say(ending(2, "Done."));
    socket.say({ frame: "sync", conversation: "chat-one", n: 2 });
    draw();
    expect(conversation.store.value.meanwhile).toBe(1);
  });

  it("shows nothing after a short break", () => {
    const conversation = begun();
    socket.say(opening("m1", "go"));
    draw();
    socket.break();
    clock.pass(1_000);
    socket.accept();
    socket.say(ending(2, "Done."));
    socket.say({ frame: "sync", conversation: "chat-one", n: 2 });
    draw();
    expect(conversation.store.value.meanwhile).toBe(0);
  });
});

it("forwards the feed", () => {
  begun();
  socket.say({ frame: "watching", expires_at: 0 });
  socket.say({ frame: "feed", conversation: "chat-two", n: 1, events: [], read_n: 1 });
  draw();
  expect(feed).toEqual(["watching", "feed"]);
});

it("shows that the page is too old for the server", () => {
  const conversation = begun();
  socket.say({ ...batch({ n: 1, events: [] }), v: 9 });
  draw();
  expect(conversation.store.value.outdated).toBe(true);
});
