import { beforeEach, describe, expect, it } from "vitest";
import { Budget, type ScopeLimits, stateOf } from "../../src/ui/limits/budget.ts";
import { sayLeft } from "../../src/ui/limits/left_line.tsx";
import { sayLimit, sayRefused } from "../../src/ui/limits/limit_codes.ts";
import { Conversation } from "../../src/ui/store/conversation.ts";
import { ending, opening, refusalOf, ScriptedClock, ScriptedSocket, scriptedServices, settle } from "./scripted.ts";

const NOW = Date.UTC(2026, 10, 25, 9);
const DAY = "2026-11-26T00:00:00Z";
const MONTH = "2026-12-01T00:00:00Z";

function scopeOf(
  scope: ScopeLimits["scope"],
  limits: ScopeLimits["limits"] = {},
  used: ScopeLimits["used"] = {},
): ScopeLimits {
  return { scope, limits, used, day_ends_at: DAY, month_ends_at: MONTH };
}

describe("the remaining amount", () => {
  it("is empty if there is no limit", () => {
    expect(stateOf([scopeOf("user"), scopeOf("project", { usd_day: null }), scopeOf("tenant")])).toEqual({
      lefts: [],
      stopped: "",
    });
  });

  it("is that of the tightest limit of each kind, in any scope", () => {
    const { lefts } = stateOf([
      scopeOf("user", { usd_day: 5, usd_month: 50 }, { usd_day: 1, usd_month: 20 }),
      scopeOf("project", { usd_day: 100, tokens_month: 2_000_000 }, { usd_day: 99.5, tokens_month: 800_000 }),
    ]);
    expect(lefts.map(sayLeft)).toEqual([
      "$0.50 of $100.00 today of the project",
      "1.2M of 2M tokens this month of the project",
    ]);
  });

  it("is never below zero, and for storage shown only when little remains", () => {
    const gb = 1024 ** 3;
    const { lefts } = stateOf([scopeOf("user", { usd_day: 1, storage_bytes: gb }, { usd_day: 1.2 })]);
    expect(lefts.map(sayLeft)).toEqual(["$0.00 of $1.00 today"]);
    const full = stateOf([scopeOf("user", { storage_bytes: gb }, { storage_bytes: 0.9 * gb })]);
    expect(full.lefts.map(sayLeft)).toEqual(["102 MB of 1 GB of storage"]);
  });

  it("names the reason for a stop", () => {
    expect(stateOf([scopeOf("user"), scopeOf("tenant", { stopped: "unpaid" })]).stopped).toBe("unpaid");
  });

  it("is read again once a while after turns have ended, and stays if it cannot be read", async () => {
    const clock = new ScriptedClock(NOW);
    const answers = [[scopeOf("user", { usd_day: 5 }, { usd_day: 1 })], null];
    let reads = 0;
    const budget = new Budget(async () => {
      reads += 1;
      const scopes = answers.shift();
      if (!scopes) throw new Error("gone");
      return { scopes };
    }, clock);
    await budget.load();
    budget.refresh();
    budget.refresh();
    clock.pass(10_000);
    await settle();
    expect(reads).toBe(2);
    expect(budget.store.value.lefts).toMatchObject([{ what: "usd", left: 4 }]);
  });
});

describe("a refusal by a limit", () => {
  let socket: ScriptedSocket;
  let spent: number;

  function begun(): Conversation {
    const conversation = new Conversation(
      "chat-one",
      scriptedServices(socket, {
        clock: new ScriptedClock(NOW),
        usageChanged: () => {
          spent += 1;
        },
      }),
      true,
    );
    conversation.show();
    socket.accept();
    return conversation;
  }

  beforeEach(() => {
    socket = new ScriptedSocket();
    spent = 0;
  });

  const codes = ["limit_turns", "limit_tokens", "limit_usd", "limit_storage", "stopped"];

  it.each(codes)("%s restores the text into the input, with its end", (code) => {
    const conversation = begun();
    conversation.say("sum it all");
    socket.say(refusalOf(socket, code, { message: "Your own budget is used up.", retry_after_s: 3_600 }));
    expect(conversation.store.value.outbox).toEqual([]);
    expect(conversation.composer.draft.value).toMatchObject({
      text: "sum it all",
      refusal: { code, message: "Your own budget is used up.", untilMs: NOW + 3_600_000 },
    });
    expect(spent).toBe(1);
    // A refused message can be sent again before that time: the limit may have been raised.
    conversation.composer.submit();
    expect(socket.asked("send")).toHaveLength(2);
  });

  it("leaves the text in place if the input is in use", () => {
    const conversation = begun();
    conversation.say("sum it all");
    conversation.composer.write("and");
    socket.say(refusalOf(socket, "limit_usd"));
    expect(conversation.store.value.outbox).toMatchObject([{ text: "sum it all" }]);
    expect([...conversation.store.value.problems.values()]).toMatchObject([{ code: "limit_usd", trying: false }]);
    expect(conversation.composer.draft.value.text).toBe("and");
  });

  it("that ends soon is shown at the message, which is sent again automatically", () => {
    const conversation = begun();
    conversation.say("sum it all");
    socket.say(refusalOf(socket, "limit_turns", { message: "Busy.", retry_after_s: 5, retryable: true }));
    expect([...conversation.store.value.problems.values()]).toMatchObject([{ code: "limit_turns", trying: true }]);
    expect(conversation.store.value.blockedUntil).toBe(0);
  });

  it("shows the server's sentence, which names the scope, and its end", () => {
    expect(sayLimit("limit_usd", "", 0, NOW)).toBe("The dollar budget is used up.");
    expect(sayLimit("limit_turns", "Too many.", NOW + 9_400, NOW)).toBe("Too many. Try again in 10.0 s.");
    expect(sayLimit("limit_usd", "Used up.", Date.parse(DAY), NOW)).toBe(
      "Used up. Try again at 26 Nov, 00:00 UTC (in 15 h 0 min).",
    );
  });

  it("is announced once, not as its time passes", () => {
    expect(sayRefused("limit_usd", "Used up.", Date.parse(DAY))).toBe("Used up. Try again at 26 Nov, 00:00 UTC.");
    expect(sayRefused("stopped", "")).toBe("An administrator has stopped all work. Contact your administrator.");
    expect(sayRefused("busy", "later")).toBe("Not sent yet, retrying…");
  });

  it("is checked again at the end of each turn", () => {
    const conversation = begun();
    conversation.say("go");
    socket.say(opening("m1", "go"));
    socket.say(ending(2, "done"));
    expect(spent).toBe(1);
  });
});
