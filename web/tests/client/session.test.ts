/** The session features that only a page needs: machines that sleep, and connections that are retried forever. */

import { describe, expect, it } from "vitest";
import {
  ClientError,
  type Effect,
  emptyState,
  type Failure,
  FRAME_MAX_BYTES,
  type LinkState,
  PACE,
  Session,
  type SessionOptions,
} from "../../src/client/index.ts";
import { FarEnd, TestClock } from "./stage.ts";

const C = "c1";
const MINUTE_MS = 60_000;

class Page {
  readonly clock = new TestClock();
  readonly far = new FarEnd();
  readonly effects: Effect[] = [];
  readonly links: LinkState[] = [];
  readonly failures: Failure[] = [];
  readonly session: Session;

  constructor(given: Partial<SessionOptions> = {}) {
    this.session = new Session({
      dial: this.far,
      clock: this.clock,
      state: emptyState(C, 3),
      random: () => 0.5,
      onEffects: (effects) => this.effects.push(...effects),
      onLink: (link) => this.links.push(link),
      onFailure: (failure) => this.failures.push(failure),
      ...given,
    });
    this.session.start();
    this.far.settle();
  }

  /** Let time pass, as on a machine that is awake. */
  pass(ms: number): void {
    const untilMs = this.clock.nowMs() + ms;
    while (this.clock.runNext(untilMs)) this.far.settle();
    this.clock.sleep(untilMs - this.clock.nowMs());
  }

  asked(action: string): number {
    return this.far.wires.flatMap((wire) => wire.sent).filter((request) => request.action === action).length;
  }

  sync(given: object = {}): void {
    this.far.say({ frame: "sync", conversation: C, n: 3, ...given });
  }
}

function lastActions(page: Page): unknown[] {
  return page.far.last.sent.map((request) => request.action);
}

describe("a session that watches the feed", () => {
  it("repeats the request until it is answered, and then from time to time", () => {
    const page = new Page({ state: emptyState(C) });
    page.session.watch();
    page.pass(2 * PACE.answerS * 1000 + 1000);
    expect(page.asked("watch")).toBe(3);
    page.far.say({ frame: "watching", expires_at: 0 });
    page.pass((PACE.idlePingEveryS - 1) * 1000);
    expect(page.asked("watch")).toBe(3);
    page.pass(2000);
    expect(page.asked("watch")).toBe(4);
  });

  it("requests the feed on each connection, and receives other conversations without a change to its own", () => {
    const page = new Page({ state: emptyState(C) });
    page.session.watch();
    const before = page.session.state;
    page.far.say({ frame: "watching", expires_at: 0 });
    page.far.say({ frame: "feed", conversation: "c2", n: 4, read_n: 3 });
    expect(page.effects.map((effect) => effect.kind)).toEqual(["feedHeard", "feedHeard"]);
    expect(page.session.state).toBe(before);
    page.far.cut();
    page.pass(5000);
    expect(lastActions(page)).toEqual(["watch"]);
  });

  it("does not request the feed unless it should watch", () => {
    const page = new Page();
    page.sync();
    page.pass(60 * MINUTE_MS);
    expect(page.asked("watch")).toBe(0);
  });
});

describe("a machine that slept", () => {
  it("checks its connection at once, and opens another one if no answer arrives", () => {
    const page = new Page();
    page.sync({ open: true, turn_id: "turn_1" });
    page.far.say({ frame: "delta", conversation: C, claim: 3, lane: "answer.0", off: 0, text: "Hé🙂" });
    page.clock.sleep(10 * MINUTE_MS);
    page.pass(0);
    expect(lastActions(page)).toEqual(["resume", "ping"]);
    page.pass(PACE.wakeAnswerS * 1000 + 1000);
    expect(page.far.wires.length).toBe(2);
    expect(page.far.last.sent).toEqual([
      { action: "resume", conversation: C, after: 3, stream: { claim: 3, off: { "answer.0": 3 } } },
    ]);
    expect(page.far.wires[0]?.isClosed).toBe(true);
  });

  it("keeps a connection that answers", () => {
    const page = new Page();
    page.sync();
    page.clock.sleep(10 * MINUTE_MS);
    page.pass(0);
    page.far.say({ frame: "pong", conversation: C, n: 3 });
    page.pass(MINUTE_MS);
    expect(page.far.wires.length).toBe(1);
  });

  it("does not treat its own silence as that of the turn", () => {
    const page = new Page();
    page.sync({ open: true, turn_id: "turn_1" });
    page.clock.sleep(PACE.silentS * 2000);
    page.pass(0);
    expect(page.effects.map((effect) => effect.kind)).toEqual(["synced"]);
  });

  it("replaces a connection without requests", () => {
    const page = new Page({ state: emptyState(C) });
    page.session.wake();
    page.pass(1000);
    expect(page.far.wires.length).toBe(2);
  });

  it("requests the feed again if it receives nothing else", () => {
    const page = new Page({ state: emptyState(C) });
    page.session.watch();
    page.far.say({ frame: "watching", expires_at: 0 });
    page.session.wake();
    page.session.wake();
    expect(lastActions(page)).toEqual(["watch", "watch"]);
    page.pass(PACE.wakeAnswerS * 1000 + 1000);
    expect(page.far.wires.length).toBe(2);
  });

  it("retries a lost connection at once when it wakes", () => {
    const page = new Page();
    page.far.refuses = 1000;
    page.far.cut();
    page.pass(10 * MINUTE_MS);
    page.far.refuses = 0;
    const dialled = page.far.wires.length;
    page.session.wake();
    page.far.settle();
    expect(page.far.wires.length).toBe(dialled + 1);
    expect(page.session.link.is).toBe("open");
  });
});

describe("a lost connection", () => {
  it("is retried for as long as the page is open, in the end with the largest delay", () => {
    const page = new Page();
    page.far.refuses = 1000;
    page.far.cut();
    page.pass(60 * MINUTE_MS);
    const largestMs = (PACE.reconnectDelaysS.at(-1) ?? 0) * 500;
    expect(page.far.wires.length).toBeGreaterThan((60 * MINUTE_MS) / largestMs - 10);
    expect(page.failures).toEqual([]);
    page.far.refuses = 0;
    page.pass(largestMs);
    expect(page.session.link.is).toBe("open");
  });

  it("is reported once with its time, also if the next ones break before a frame arrives", () => {
    const page = new Page();
    page.sync();
    page.far.cut();
    const sinceMs = page.clock.nowMs();
    page.pass(5000);
    page.far.cut();
    expect(page.links.map((link) => link.is)).toEqual(["connecting", "open", "lost", "open", "lost"]);
    expect(page.session.link).toEqual({ is: "lost", sinceMs });
  });

  it("queues messages meanwhile, and sends them after it is back", () => {
    const page = new Page();
    page.sync();
    page.far.refuses = 3;
    page.far.cut();
    const said = page.session.say("hello");
    page.pass(MINUTE_MS);
    expect(page.far.current.sent[1]).toEqual({ action: "send", conversation: C, message_id: said, text: "hello" });
  });

  it("does not count hours without a connection as silence of the turn", () => {
    const page = new Page();
    page.sync({ open: true, turn_id: "turn_1" });
    page.far.refuses = 2000;
    page.far.cut();
    page.pass(PACE.silentS * 2000);
    page.far.refuses = 0;
    page.pass(MINUTE_MS);
    expect(page.session.link.is).toBe("open");
    expect(page.effects.filter((effect) => effect.kind === "refused" && effect.frame.code === "turn_silent")).toEqual(
      [],
    );
  });

  it("abandons an attempt that does not open", () => {
    const silent = new FarEnd();
    silent.settle = () => undefined;
    const page = new Page({ dial: silent });
    page.pass(PACE.openS * 1000 + 10_000);
    expect(silent.wires.length).toBe(2);
    expect(silent.wires[0]?.isClosed).toBe(true);
  });
});

describe("the end of a session", () => {
  it("follows a refused ticket, and lasts until the next start", () => {
    const page = new Page();
    page.far.cut();
    page.pass(1000);
    page.far.current.handlers.closed(1006, "");
    page.clock.runNext(page.clock.nowMs() + 10_000);
    page.far.last.handlers.failed({ code: "unauthorized", message: "sign in" });
    expect(page.session.link.is).toBe("refused");
    expect(page.failures.map((failure) => failure.code)).toEqual(["unauthorized"]);
    const dialled = page.far.wires.length;
    page.session.wake();
    page.pass(10 * MINUTE_MS);
    expect(page.far.wires.length).toBe(dialled);
    page.session.start();
    page.far.settle();
    expect(lastActions(page)).toEqual(["resume"]);
  });

  it("follows a refusal of a fresh token, too", () => {
    const page = new Page();
    page.sync();
    page.far.say({ frame: "error", code: "auth_expired", message: "expired" });
    page.pass(1000);
    expect(page.far.wires.length).toBe(2);
    page.far.say({ frame: "error", code: "unauthorized", message: "no" });
    expect(page.session.link.is).toBe("refused");
    expect(page.effects.at(-1)).toMatchObject({ kind: "refused", frame: { code: "unauthorized" } });
    expect(page.failures.map((failure) => failure.code)).toEqual(["unauthorized"]);
  });

  it("follows events in a newer format, which are not applied", () => {
    const page = new Page();
    page.far.say({ frame: "events", conversation: C, n: 4, prev: 3, v: 2 });
    expect(page.failures.map((failure) => failure.code)).toEqual(["format_newer"]);
    expect(page.session.link.is).toBe("closed");
    expect(page.session.state.cursor).toBe(3);
    expect(page.clock.timers).toBe(0);
  });

  it("leaves no timer, and processes no further frames", () => {
    const page = new Page();
    const { handlers } = page.far.current;
    page.session.close();
    handlers.message(JSON.stringify({ frame: "pong", conversation: C, n: 9 }));
    handlers.closed(1000, "");
    expect([page.clock.timers, page.session.state.newest]).toEqual([0, 0]);
  });
});

describe("a sent message", () => {
  it("is refused before it is sent if it is too large in UTF-8 bytes", () => {
    const page = new Page();
    const most = "🙂".repeat(32_000);
    page.session.say(most);
    expect(() => page.session.say(`${most}${"é".repeat(1600)}`)).toThrow(ClientError);
    expect(page.asked("send")).toBe(1);
    expect(page.session.state.unacked.size).toBe(1);
  });

  it("fits into one frame of the gateway if the dial cannot split it", () => {
    const page = new Page({ maxBytes: FRAME_MAX_BYTES });
    page.session.say("x".repeat(32_000));
    expect(() => page.session.say("x".repeat(33_000))).toThrow(ClientError);
    expect(page.asked("send")).toBe(1);
  });

  it("has a question mark for an unpaired surrogate", () => {
    const page = new Page();
    page.session.say("a\udcffb🙂");
    expect(page.far.current.sent.at(-1)).toMatchObject({ text: "a?b🙂" });
    page.session.answer("edit", "tc_000000000000", { params: { "b\ud83d": [{ c: "\udcff🙂" }], n: 1, none: null } });
    expect(page.far.current.sent.at(-1)).toMatchObject({ params: { "b?": [{ c: "?🙂" }], n: 1, none: null } });
  });

  it("has a new id each time", () => {
    const page = new Page({ random: Math.random });
    const ids = new Set(Array.from({ length: 50 }, () => page.session.say("x")));
    expect(ids.size).toBe(50);
    for (const id of ids) expect(id).toMatch(/^m_[0-9a-f]{16}$/);
  });
});

describe("a renewal", () => {
  it("has no effect if the connection has changed when the ticket arrives, and is repeated there", async () => {
    const tickets: ((ticket: string) => void)[] = [];
    const ticket = () => new Promise<string>((resolve) => tickets.push(resolve));
    const clock = new TestClock();
    const page = new Page({ clock, credential: { expiresAtS: () => clock.nowMs() / 1000 + 100, ticket } });
    expect(tickets.length).toBe(0);
    clock.sleep(80_000);
    while (clock.runNext(clock.nowMs()));
    expect(tickets.length).toBe(1);
    page.far.cut();
    while (clock.runNext(clock.nowMs() + 1000));
    page.far.settle();
    tickets[0]?.("late");
    await Promise.resolve();
    expect(page.asked("auth")).toBe(0);
  });

  it("is retried after a failure without other effects", async () => {
    const clock = new TestClock();
    let asked = 0;
    const ticket = async () => {
      asked += 1;
      if (asked === 1) throw new Error("not now");
      return "t-2";
    };
    const page = new Page({ clock, credential: { expiresAtS: () => clock.nowMs() / 1000 + 100, ticket } });
    for (let s = 0; s <= 110; s += 1) {
      while (clock.runNext(clock.nowMs()));
      clock.sleep(1000);
      page.sync();
      await Promise.resolve();
    }
    expect(page.far.current.sent.filter((request) => request.action === "auth")[0]).toEqual({
      action: "auth",
      ticket: "t-2",
    });
    expect(page.far.wires.length).toBe(1);
  });
});

describe("joining", () => {
  it("is repeated on another connection", async () => {
    const page = new Page({ state: emptyState(C) });
    const joined = page.session.join();
    page.far.cut();
    page.pass(1000);
    page.far.say({ frame: "pong", conversation: C, n: 9 });
    expect(await joined).toBe(true);
    expect(lastActions(page)).toEqual(["ping", "resume"]);
  });

  it("ends with an error if the server does not answer", async () => {
    const page = new Page({ state: emptyState(C) });
    const joined = page.session.join();
    page.pass(PACE.answerS * 1000);
    await expect(joined).rejects.toMatchObject({ code: "no_answer" });
  });
});
