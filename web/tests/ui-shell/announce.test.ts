import { describe, expect, it } from "vitest";
import { emptyState, foldFrames, parseFrame } from "../../src/client/index.ts";
import { emptyThread, foldEffects, type Thread } from "../../src/thread/index.ts";
import { Announcer } from "../../src/ui/announce/announcer.ts";
import { failureOf, newsOf } from "../../src/ui/announce/news.ts";
import { bannerOf } from "../../src/ui/connection/banner.ts";
import { batch, ending, opening, ScriptedClock } from "./scripted.ts";

describe("an announcement", () => {
  function listening() {
    const clock = new ScriptedClock();
    const said: string[] = [];
    return { clock, said, announcer: new Announcer(clock, (text) => said.push(text)) };
  }
  const passing = (text: string) => ({ text, keeps: false });

  it("is made at once, and then at most every 5 s, only the newest", () => {
    const { clock, said, announcer } = listening();
    announcer.announce(passing("Working"));
    announcer.announce(passing("one"));
    announcer.announce(passing("two"));
    expect(said).toEqual(["Working"]);
    clock.pass(4_999);
    expect(said).toEqual(["Working"]);
    clock.pass(1);
    expect(said).toEqual(["Working", "two"]);
  });

  it("leaves out no paragraph of an answer", () => {
    const { clock, said, announcer } = listening();
    announcer.announce(passing("Working"));
    announcer.announce({ text: "First.", keeps: true });
    announcer.announce({ text: "Second.", keeps: true });
    clock.pass(5_000);
    expect(said).toEqual(["Working", "First.\nSecond."]);
  });

  it("is followed by silence", () => {
    const { clock, said, announcer } = listening();
    announcer.announce(passing("Working"));
    clock.pass(60_000);
    expect(said).toEqual(["Working"]);
  });
});

describe("the news of a thread", () => {
  function threadOf(...frames: object[]): Thread {
    const parsed = frames.map(parseFrame).filter((frame) => frame !== null);
    const [, effects] = foldFrames(emptyState("chat-one"), parsed);
    return foldEffects(emptyThread("chat-one"), effects);
  }
  const begun = threadOf(opening("m1", "go"));
  const texts = (before: Thread, after: Thread, reading: "complete" | "paragraph" | "none") =>
    newsOf(before, after, reading).map((news) => news.text);

  it("includes the start of a turn", () => {
    expect(texts(emptyThread("chat-one"), begun, "complete")).toEqual(["Working"]);
  });

  it("includes the queue position of a turn, and its start", () => {
    const start = opening("m1", "go");
    const lined = [
      {
        ...start,
        events: [...start.events, ...batch({ n: 1, events: [{ type: "turn.queued", data: { place: 2 } }] }).events],
      },
      { frame: "pong", conversation: "chat-one", n: 1, place: 1 },
      batch({ n: 2, events: [{ type: "turn.begun", data: { waited_ms: 9000 } }] }),
    ];
    const threads = [0, 1, 2, 3].map((count) => threadOf(...lined.slice(0, count)));
    const said = threads.slice(1).map((after, at) => texts(threads[at] as Thread, after, "complete"));
    expect(said).toEqual([["Waiting: 2nd in line"], ["Waiting: next in line"], ["Working"]]);
  });

  it("includes the complete answer with its text", () => {
    const done = threadOf(opening("m1", "go"), ending(2, "Two words."));
    expect(texts(begun, done, "complete")).toEqual(["Answer, 2 words Two words."]);
    expect(texts(begun, done, "none")).toEqual(["Answer, 2 words"]);
    expect(texts(begun, done, "paragraph")).toEqual(["Two words."]);
  });

  it("is empty for an unchanged thread, and for past turns", () => {
    const done = threadOf(opening("m1", "go"), ending(2, "Done."));
    expect(texts(begun, begun, "complete")).toEqual([]);
    expect(texts(emptyThread("chat-one"), done, "complete")).toEqual([]);
  });

  it("includes each paragraph of a growing answer once", () => {
    const delta = (lane: string, off: number, text: string) => ({
      frame: "delta",
      conversation: "chat-one",
      claim: 1,
      lane,
      off,
      text,
    });
    const facts = `${JSON.stringify({ do: "open", lane: "answer.0", facts: { marker: "answer" } })}\n`;
    const open = [opening("m1", "go"), delta("lanes", 0, facts)];
    const one = threadOf(...open, delta("answer.0", 0, "First.\n\nSec"));
    const two = threadOf(...open, delta("answer.0", 0, "First.\n\nSecond.\n\nThi"));
    expect(texts(begun, one, "paragraph")).toEqual(["First."]);
    expect(texts(one, two, "paragraph")).toEqual(["Second."]);
  });
});

describe("a failed turn", () => {
  const begun = foldEffects(emptyThread("chat-one"), effectsOf(opening("m1", "go")));
  const error = { code: "step_failed", error: "it broke", error_type: "StepFailed" };
  const status = { type: "conv.status", data: { state: "error", completion: "error" } };
  const broken = foldEffects(
    begun,
    effectsOf(opening("m1", "go"), batch({ n: 2, events: [{ type: "chat.error", data: error }, status] })),
  );

  function effectsOf(...frames: object[]) {
    return foldFrames(
      emptyState("chat-one"),
      frames.map(parseFrame).filter((frame) => frame !== null),
    )[1];
  }

  it("is announced when it fails, but not when its conversation is opened", () => {
    expect(failureOf(begun, broken)).toContain("failed");
    expect(failureOf(emptyThread("chat-one"), broken)).toBeNull();
  });

  it("is no longer news when the next one begins", () => {
    expect(failureOf(begun, begun)).toBeNull();
    expect(failureOf(emptyThread("chat-one"), begun)).toBe("");
  });
});

describe("the line about the connection", () => {
  it("is empty for 3 s, then says that it reconnects, then since when it is offline", () => {
    const link = { is: "lost", sinceMs: 1_000 } as const;
    expect(bannerOf(link, 3_999)).toEqual({ banner: { is: "none" }, changesInMs: 1 });
    expect(bannerOf(link, 4_000)).toEqual({ banner: { is: "reconnecting" }, changesInMs: 27_000 });
    expect(bannerOf(link, 31_000)).toEqual({ banner: { is: "offline", sinceMs: 1_000 }, changesInMs: 0 });
  });

  it("asks for a sign-in at once after a refusal", () => {
    expect(bannerOf({ is: "refused", sinceMs: 0 }, 0).banner.is).toBe("refused");
  });

  it("is empty while the connection works", () => {
    expect(bannerOf({ is: "open", sinceMs: 0 }, 99_999_999).banner.is).toBe("none");
  });
});
