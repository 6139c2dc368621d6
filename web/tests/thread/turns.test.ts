import { describe, expect, test } from "vitest";
import type { Frame } from "../../src/client/index.ts";
import { foldBatch } from "../../src/thread/fold.ts";
import { type Call, draftAt, type Round, type Thread, type Turn } from "../../src/thread/index.ts";
import { named, synthetic, threadOf } from "./recordings.ts";

function turnOf(frames: readonly Frame[], place = 0): Turn {
  return threadOf(frames).turns.at(place) as Turn;
}

function roundOf(frames: readonly Frame[], iteration = 0): Round {
  return turnOf(frames).rounds[iteration] as Round;
}

function callsOf(turn: Turn): readonly Call[] {
  return turn.rounds.flatMap((round) => round.calls);
}

/** Return the frames before the first one with an event of this type. */
function upTo(frames: readonly Frame[], type: string, step = ""): readonly Frame[] {
  const at = frames.findIndex(
    (frame) => frame.frame === "events" && frame.events.some((event) => event.type === type && event.step === step),
  );
  return frames.slice(0, at);
}

/** Return every state that a client saw. */
function states(frames: readonly Frame[]): readonly Thread[] {
  return frames.map((_, place) => threadOf(frames.slice(0, place + 1)));
}

describe("the states of a program", () => {
  const programs = states(named("a program that is watched")).flatMap(({ turns }) =>
    (turns[0]?.rounds ?? []).flatMap((round) => round.calls.flatMap((call) => (call.program ? [call] : []))),
  );
  const [first] = programs as [Call];
  const observed = programs.map((call) => call.program?.state);

  test("are started, running and collected, as reported", () => {
    expect(observed.filter((state, place) => state !== observed[place - 1])).toEqual([
      "writing",
      "ready",
      "starting",
      "running",
      "collecting",
      "error",
    ]);
    const began = Date.parse("2026-01-01T00:00:00Z");
    const collecting = programs.find((call) => call.program?.state === "collecting");
    expect(collecting?.program).toMatchObject({ startedAt: began, ranAt: began, endedAt: began + 500 });
    expect(programs.at(-1)).toMatchObject({
      callId: first.callId,
      durationMs: 500,
      program: { startMs: 0, execMs: 500, collectMs: 0 },
    });
  });
});

describe("a turn", () => {
  test("opens under its message, with a thinking round and its limits", () => {
    const turn = turnOf(upTo(named("an answer"), "solver.react.decision").slice(0, 2));
    expect(turn.prompts.map((prompt) => prompt.text)).toEqual(["go"]);
    expect(turn.outcome).toEqual({ is: "running" });
    expect([turn.roundsMax, turn.maxTokens]).toEqual([15, 80_000]);
    expect(turn.rounds.map((round) => [round.iteration, round.state])).toEqual([[0, "thinking"]]);
  });

  test("streams its answer, which the recorded one replaces", () => {
    const seen = states(named("an answer")).flatMap((thread) => thread.turns[0]?.answers ?? []);
    const streamed = seen.filter((answer) => answer.state === "streaming");
    expect(streamed.length).toBeGreaterThan(0);
    expect(streamed.every((answer) => "Hello.".startsWith(answer.text))).toBe(true);
    expect(seen.at(-1)).toEqual({ text: "Hello.", state: "recorded", iteration: 0, claim: 0, lane: "" });
  });

  test("ends with its receipt and its suggestions", () => {
    const turn = turnOf(named("an answer"));
    expect(turn.outcome).toEqual({ is: "completed", reason: "complete", message: "" });
    expect(turn.receipt).toMatchObject({ rounds: 1, model: "memory" });
    expect(turn.receipt?.usage?.outputTokens).toBe(turn.rounds[0]?.usage?.outputTokens);
    expect(turn.followups).toEqual(["More?"]);
    expect(turn.closedN).toBeGreaterThan(turn.openedN);
  });

  test("that fails shows why, and keeps the interrupted round", () => {
    const turn = turnOf(named("a turn that fails"));
    expect(turn.outcome).toMatchObject({ is: "error", code: "model_refused", retryable: false });
    expect(turn.rounds.map((round) => [round.state, round.interrupted])).toEqual([["done", true]]);
    expect(threadOf(named("a turn that fails")).state).toBe("error");
  });
});

describe("a round", () => {
  test("shows its thinking as it grows, and the recorded one at its end", () => {
    const texts = states(named("an answer")).map((thread) => thread.turns[0]?.rounds[0]?.thinking.text ?? "");
    expect(texts.some((text) => text !== "" && text !== "Let me see.")).toBe(true);
    expect(roundOf(named("an answer")).thinking).toEqual({ text: "Let me see.", whole: true, aborted: "" });
  });

  test("that violates the protocol is refused, and another one follows", () => {
    const turn = turnOf(named("a broken decision"));
    expect(turn.rounds.map((round) => round.refused)).toEqual([true, false]);
    expect(turn.rounds[0]?.items).toContainEqual(expect.objectContaining({ is: "rejected" }));
  });

  test("has its corrections, refusals, waits and events in order", () => {
    const [first, second] = turnOf(synthetic).rounds as [Round, Round];
    expect(first.items.map((item) => item.is)).toEqual(["event", "call", "call", "notice", "rejected", "plan"]);
    expect(first.bust).toEqual({ reason: "hide", expectedTokens: 8_100, readTokens: 2_100 });
    expect(first.roundsLeft).toBe(13);
    expect(second.items.map((item) => item.is)).toEqual(["waiting", "plan"]);
  });

  test("waits for a compaction, whose start and end are one item", () => {
    const turns = threadOf(named("a compaction")).turns;
    const turn = turns.find((one) => one.compactions.length > 0) as Turn;
    const items = turn.rounds.flatMap((round) => round.items.filter((item) => item.is === "compaction"));
    expect(items.length).toBe(turn.compactions.length);
    for (const one of turn.compactions) {
      expect(one.ended).toBe(true);
      expect(one.afterTokens).not.toBeNull();
    }
  });
});

describe("a call", () => {
  test("runs from its decision on, and ends with its result", () => {
    const frames = named("a plan and two files");
    const running = callsOf(turnOf(upTo(frames, "react.tool.result")));
    expect(running.map((call) => [call.toolId, call.state])).toEqual([["react.plan", "running"]]);
    expect(callsOf(turnOf(frames)).map((call) => call.state)).toEqual(["ok", "ok", "ok"]);
    expect(callsOf(turnOf(frames))[1]?.params).toMatchObject({ content: { chars: 9 } });
  });

  test("of several runs when the previous one has ended", () => {
    const frames = upTo(synthetic, "round.restarted").slice(0, -1);
    const calls = callsOf(turnOf(frames));
    expect(calls.map((call) => call.state)).toEqual(["ok", "running"]);
    expect(calls[1]?.startedAt).toBe((calls[0]?.startedAt ?? 0) + 142);
  });

  test("that searches has its results, which are sources", () => {
    const thread = threadOf(named("a search that is cited"));
    const [call] = callsOf(thread.turns[0] as Turn);
    const [first] = call?.search?.results ?? [];
    expect(thread.sources.get(first?.sid ?? 0)).toMatchObject({ title: first?.title, url: first?.url });
    expect(thread.turns[0]?.citations.map((source) => source.sid)).toEqual([1]);
    expect(thread.turns[0]?.unresolvedSids).toEqual([77]);
  });

  test("that fetches pages has a row for each, also for failures", () => {
    const [call] = callsOf(turnOf(synthetic));
    expect(call?.fetched?.results.map((row) => [row.status, row.error])).toEqual([
      ["success", ""],
      ["timeout", "the page did not come"],
    ]);
    expect(threadOf(synthetic).sources.get(1)?.snippet).toBe("a page");
  });

  test.each([
    ["", "stopped"],
    ["Shorter.", "withdrawn"],
  ])("that waits for approval is cancelled by a steer of “%s”: %s", (text, state) => {
    const waiting = threadOf(named("a call that waits for a person"));
    const [call] = callsOf(waiting.turns[0] as Turn);
    const event = {
      route: "chat_step",
      ts: "2026-01-01T00:00:00.000Z",
      turn_id: waiting.turns[0]?.turnId ?? "",
      step: "",
      status: "",
    };
    const settled = foldBatch(waiting, waiting.cursor + 1, [
      { ...event, type: "chat.conversation.accepted", data: { message_id: "s1", kind: "steer", text } },
      {
        ...event,
        type: "queue.continuation.accepted",
        data: { message_id: "s1", active_turn_id: event.turn_id },
      },
      {
        ...event,
        type: "approval.answered",
        data: { call_id: call?.callId, tool_id: "bank.pay", verdict: "withdrawn" },
      },
    ]);
    expect(callsOf(settled.turns[0] as Turn)[0]?.approval?.state).toBe(state);
  });

  test("that waits for approval is the turn's approval until it is answered", () => {
    const turn = turnOf(named("a call that waits for a person"));
    const [call] = callsOf(turn);
    expect(turn.approval).toBe(call?.callId);
    expect([call?.state, call?.approval?.state, call?.approval?.params]).toEqual(["waiting", "asked", { sum: 100 }]);
  });

  test.each([
    ["a call that is approved", ["ok"], "approved"],
    ["a call that is denied", ["skipped"], "denied"],
    ["a call that is edited", ["skipped", "ok"], "edited"],
  ] as const)("%s ends so", (name, ends, verdict) => {
    const turn = turnOf(named(name));
    const calls = callsOf(turn);
    expect(calls.map((call) => call.state)).toEqual(ends);
    expect(calls[0]?.approval?.state).toBe(verdict);
    expect(turn.approval).toBe("");
    if (verdict === "denied") expect(calls[0]?.approval?.text).toBe("Too much.");
    if (verdict === "edited") expect(calls[0]?.approval?.editedCallId).toBe(calls[1]?.callId);
    expect(calls[0]?.approval?.client).toBe("");
  });
});

describe("a program", () => {
  test("is written before its call is recorded, and keeps its source", () => {
    const frames = named("a program");
    const written = callsOf(turnOf(upTo(frames, "solver.react.decision")))[0];
    expect(written?.program).toMatchObject({ name: "count", objective: "I count.", state: "writing" });
    expect(written?.program?.code.text).toBe("print(1)");
    const [call] = callsOf(turnOf(frames));
    expect(call?.callId).toBe(written?.callId);
    expect(call?.program).toMatchObject({ name: "count", objective: "I count.", language: "python" });
    expect(call?.program?.contract.map((file) => file.filename)).toEqual(["a.csv"]);
  });

  test("runs until its deadline, and shows its output", () => {
    const seen = states(named("a program that is watched"))
      .map((thread) => callsOf(thread.turns[0] as Turn)[0]?.program)
      .filter((program) => program?.state === "running");
    expect(seen.some((program) => program?.log.text === "one\n")).toBe(true);
    expect(seen.every((program) => program?.deadline !== null)).toBe(true);
  });

  test("ends with its output and its code", () => {
    const [call] = callsOf(turnOf(named("a program that is watched")));
    expect(call?.program?.log).toEqual({ base: 0, text: "one\ntwo\n", whole: true, bytes: 8 });
    expect(call?.program?.errorCode).toBe(call?.code);
  });
});

describe("a file and a plan", () => {
  test("a file that is being written is found by its future path", () => {
    const thread = threadOf(named("a plan and two files"));
    const { turnId } = thread.turns[0] as Turn;
    expect(draftAt(thread, `fi:${turnId}.outputs/a.md`)?.text.text).toBe("# A\n\nText");
    // A text written among the messages is not also a file.
    expect(draftAt(thread, `fi:${turnId}.outputs/b.md`)).toBeUndefined();
    expect(draftAt(thread, "fi:turn_other.outputs/a.md")).toBeUndefined();
  });

  test("a file is shown while it is written, on the canvas or among the messages", () => {
    const [, canvas, timeline] = turnOf(named("a plan and two files")).rounds as [Round, Round, Round];
    expect(canvas.drafts[0]).toMatchObject({ name: "outputs/a.md", canvas: true, callId: canvas.calls[0]?.callId });
    expect(canvas.drafts[0]?.text).toEqual({ text: "# A\n\nText", whole: true, aborted: "" });
    expect(timeline.drafts[0]).toMatchObject({ name: "outputs/b.md", canvas: false });
  });

  test("an offered file is a row of its turn and of the thread", () => {
    const thread = threadOf(named("a plan and two files"));
    expect(thread.files.map((file) => file.filename)).toEqual(["a.md", "b.md"]);
    expect(thread.turns[0]?.files).toEqual(thread.files);
  });

  test("a plan is a draft until its event arrives", () => {
    const frames = named("a plan and two files");
    expect(roundOf(upTo(frames, "solver.react.decision")).planDraft?.text).toContain("□ look");
    expect(roundOf(frames).planDraft).toBeNull();
    expect(threadOf(frames).plans[0]?.steps.map((step) => step.text)).toEqual(["look", "write"]);
  });

  test("the newest version of a plan counts, and names the step that it changed", () => {
    const [plan] = threadOf(synthetic).plans;
    expect(plan?.steps.map((step) => step.status)).toEqual(["done", "pending"]);
    expect([plan?.changed, plan?.versions]).toEqual([0, 2]);
  });
});

describe("a message during the open turn", () => {
  test("waits for the round after the running one, until another has read it", () => {
    const frames = named("a message in mid-answer");
    const waits = turnOf(upTo(frames, "solver.react.decision")).messages[0];
    expect([waits?.text, waits?.state, waits?.after]).toEqual(["and the second?", { is: "waiting" }, 1]);
    expect(turnOf(frames).messages[0]?.state).toEqual({ is: "read", iteration: 1 });
  });

  test("defers the answer that had not read it", () => {
    const { answers } = turnOf(named("a message in mid-answer"));
    expect(answers.map((answer) => [answer.state, answer.iteration])).toEqual([
      ["deferred", 0],
      ["recorded", 1],
    ]);
  });

  test("becomes the heading of the next turn, if this one has no round left", () => {
    const [first, second] = threadOf(named("a message that opens the next turn")).turns;
    expect(second?.prompts.map((prompt) => prompt.messageId)).toEqual(["f1"]);
    expect(first?.messages.map((message) => message.messageId)).toEqual(["f0"]);
  });

  test("that redirects interrupts the answer, whose shown part stays", () => {
    const turn = turnOf(named("a steer"));
    expect(turn.messages[0]?.state).toEqual({ is: "heeded", phase: "decision", finalizeRounds: 2 });
    expect(turn.rounds.map((round) => round.interrupted)).toEqual([true, false]);
    expect(turn.answers.map((answer) => answer.state)).toEqual(["cut", "recorded"]);
    expect(turn.answers[0]?.text).toMatch(/^One, two, three/);
    expect(turn.roundsMax).toBe(15);
  });

  test("that stops draws nothing, and the turn ends with the shown part", () => {
    const turn = turnOf(named("a stop"));
    expect(turn.messages).toEqual([]);
    expect([turn.ending, turn.outcome.is === "completed" && turn.outcome.reason]).toEqual([0, "stop"]);
    expect(turn.answers.map((answer) => answer.state)).toEqual(["cut"]);
    expect(turn.rounds).toHaveLength(1);
  });

  test("that stops shows the part once, also if another process began a round before the end", () => {
    const frames = named("a stop").flatMap((frame): readonly Frame[] => {
      if (frame.frame !== "events" || frame.events.every(({ type }) => type !== "chat.complete")) return [frame];
      const data = { claim: frame.n, iteration: 1, attempt: 0 };
      const again = { ...(frame.events[0] as (typeof frame.events)[number]), type: "round.restarted", data };
      return [
        { ...frame, events: [again] },
        { ...frame, n: frame.n + 1, prev: frame.n },
      ];
    });
    const turn = turnOf(frames);
    expect(turn.rounds.length).toBe(2);
    expect(turn.answers).toMatchObject([{ state: "cut", iteration: 0 }]);
  });
});

describe("a message outside a turn", () => {
  test("is kept, or handed back", () => {
    const loose = threadOf(synthetic).loose.map((message) => [message.kind, message.source, message.state]);
    expect(loose).toEqual([
      ["steer", "", { is: "dropped", reason: "nothing_to_steer" }],
      ["alert", "weather", { is: "said" }],
    ]);
  });

  test("the newest feedback of each origin counts, unless it was withdrawn", () => {
    expect(turnOf(synthetic).feedback).toEqual([{ origin: "machine", reaction: "ok", text: "exact" }]);
  });

  test("the conversation has the given title", () => {
    expect(threadOf(synthetic).title).toBe("pay the bill");
  });
});
