/** Builders for the values of a thread: each takes the fields that a state needs, with defaults for the others. */

import { emptyCall } from "../../src/thread/calls.ts";
import { emptyThread } from "../../src/thread/fold.ts";
import { EMPTY_PROGRAM } from "../../src/thread/programs.ts";
import { emptyRound } from "../../src/thread/rounds.ts";
import type {
  Answer,
  Approval,
  Attachment,
  Call,
  Compaction,
  CostLine,
  Draft,
  FileRow,
  Growing,
  Message,
  Plan,
  Program,
  Receipt,
  Round,
  Source,
  Thread,
  Turn,
  Usage,
} from "../../src/thread/thread.ts";
import { emptyTurn, NO_RECEIPT } from "../../src/thread/turns.ts";

/** 09:14:00 on a day in November. */
export const start = new Date(2026, 10, 25, 9, 14).getTime();
export const at = (seconds: number): number => start + Math.round(seconds * 1000);

export const grown = (text: string): Growing => ({ text, whole: true, aborted: "" });
export const growing = (text: string): Growing => ({ text, whole: false, aborted: "" });

let ids = 0;
export const nextId = (head: string): string => `${head}_${String(++ids).padStart(4, "0")}`;

export function message(text: string, more: Partial<Message> = {}): Message {
  return {
    messageId: nextId("m"),
    n: ids,
    kind: "prompt",
    text,
    source: "",
    attachments: [],
    at: start,
    state: { is: "said" },
    ...more,
  };
}

export function usage(read: number, written: number, plain: number, output: number, estimated = false): Usage {
  return {
    inputTokens: plain,
    cacheReadTokens: read,
    cacheWrite5mTokens: written,
    cacheWrite1hTokens: 0,
    outputTokens: output,
    estimated,
  };
}

export function call(toolId: string, more: Partial<Call> = {}): Call {
  return { ...emptyCall(nextId("tc"), toolId), state: "ok", startedAt: at(1.2), durationMs: 6, ...more };
}

export function program(more: Partial<Program> = {}): Program {
  return {
    ...EMPTY_PROGRAM,
    name: "monthly_totals",
    objective: "Sum the sales of each month and draw them.",
    code: grown(source),
    language: "python",
    contract: [
      { filename: "outputs/totals.csv", description: "A line a month.", internal: false },
      { filename: "outputs/totals.png", description: "One bar a month.", internal: false },
    ],
    state: "running",
    startedAt: at(10.1),
    ranAt: at(10.4),
    deadline: at(610.1),
    codegenMs: 4800,
    ...more,
  };
}

export const source = `import pandas as pd
from matplotlib import pyplot as plt

sales = pd.read_csv(OUT / "sales.csv")
month = sales["date"].str[:7]
totals = sales.groupby(month)["amount"].sum()
totals.to_csv(OUT / "totals.csv")

# one bar a month; the axis begins at zero
totals.plot.bar(figsize=(7, 4), width=0.7)
plt.savefig(OUT / "totals.png", dpi=144)`;

export function approval(more: Partial<Approval> = {}): Approval {
  return {
    state: "asked",
    rule: "always",
    editable: true,
    params: { to: "ada@example.com", subject: "Totals", body: "ref:fi:turn_1.files/plan.md" },
    code: "",
    until: at(600),
    text: "",
    editedCallId: "",
    client: "",
    ...more,
  };
}

/** A round with its calls and drafts as items, in this order, unless `items` says otherwise. */
export function round(iteration: number, notes: string, more: Partial<Round> = {}): Round {
  const calls = more.calls ?? [];
  const drafts = more.drafts ?? [];
  return {
    ...emptyRound(iteration, at(iteration * 1.3)),
    claim: iteration + 1,
    state: "done",
    action: calls.length > 0 ? "call_tool" : "complete",
    thinking: grown(""),
    notes: grown(notes),
    items: [
      ...drafts.map((draft) => ({ is: "draft", lane: draft.lane }) as const),
      ...calls.map((known) => ({ is: "call", callId: known.callId }) as const),
    ],
    calls,
    drafts,
    decidedAt: at(iteration * 1.3 + 1.2),
    endedAt: at(iteration * 1.3 + 1.3),
    model: "claude-sonnet-5",
    roundsLeft: 14 - iteration,
    rendered: 1,
    ...more,
  };
}

export function draft(name: string, text: Growing, more: Partial<Draft> = {}): Draft {
  return { lane: nextId("canvas"), name, format: "markdown", text, canvas: true, callId: "", ...more };
}

export function answer(text: string, more: Partial<Answer> = {}): Answer {
  return { text, state: "recorded", iteration: 1, claim: 0, lane: "", ...more };
}

export function receipt(more: Partial<Receipt> = {}): Receipt {
  return {
    ...NO_RECEIPT,
    elapsedMs: 3200,
    parts: [
      { is: "model", ms: 3_100 },
      { is: "tools", ms: 6 },
      { is: "between", ms: 94 },
    ],
    rounds: 2,
    usage: usage(10_804, 2_930, 833, 780),
    totalInputTokens: 14_567,
    weightedTokens: 9_476,
    model: "claude-sonnet-5",
    ...more,
  };
}

export const priced: readonly CostLine[] = [
  {
    ...{ role: "solver.react.v2.decision.v2.regular", model: "claude-sonnet-5", calls: 2 },
    ...{ usage: usage(10_804, 2_930, 833, 780), usd: 0.0284, priced: true },
  },
  { role: "gate.simple", model: "claude-haiku-4-5", calls: 1, usage: usage(0, 0, 540, 12), usd: 0.0007, priced: true },
];

export function compaction(more: Partial<Compaction> = {}): Compaction {
  return {
    compactionId: nextId("cp"),
    title: "Older turns",
    kind: "history",
    beforeTokens: 81_000,
    afterTokens: 43_000,
    maxTokens: 80_000,
    coveredTurns: 4,
    reason: "",
    ended: true,
    ...more,
  };
}

export function plan(steps: Plan["steps"], more: Partial<Plan> = {}): Plan {
  return {
    planId: nextId("plan"),
    steps,
    current: true,
    open: true,
    turnId: "turn_1",
    versions: 1,
    changed: null,
    at: start,
    ...more,
  };
}

export function attached(filename: string, sizeBytes: number, mime = "text/plain"): Attachment {
  return { filename, mime, sizeBytes, path: `fi:turn_1.user.attachments/${filename}` };
}

export function file(filename: string, sizeBytes: number, more: Partial<FileRow> = {}): FileRow {
  return {
    path: `fi:turn_1.files/${filename}`,
    filename,
    mime: "text/plain",
    sizeBytes,
    sha256: "0".repeat(64),
    callId: "",
    turnId: "turn_1",
    times: 1,
    ...more,
  };
}

export function turn(prompt: string, rounds: readonly Round[], more: Partial<Turn> = {}): Turn {
  return {
    ...emptyTurn(nextId("turn"), start),
    openedN: ++ids,
    prompts: prompt ? [message(prompt)] : [],
    rounds,
    roundsMax: 15,
    maxTokens: 80_000,
    ...more,
  };
}

/** A turn that ended normally. */
export function done(prompt: string, rounds: readonly Round[], text: string, more: Partial<Turn> = {}): Turn {
  return turn(prompt, rounds, {
    closedN: ++ids,
    answers: [answer(text, { iteration: rounds.length - 1 })],
    outcome: { is: "completed", reason: "complete", message: "" },
    endedAt: at(3.2),
    receipt: receipt({ rounds: rounds.length }),
    ...more,
  });
}

export function thread(turns: readonly Turn[], more: Partial<Thread> = {}): Thread {
  return {
    ...emptyThread("chat-gallery"),
    title: "Plan, file and kumquat",
    state: turns.at(-1)?.outcome.is === "running" ? "in_progress" : "idle",
    turns,
    cursor: ids,
    ...more,
  };
}

export const caching: Source = {
  sid: 1,
  title: "Prompt caching of language models",
  url: "https://example.com/library/prompt-caching",
  path: "",
  snippet:
    "…keep the computed state of a prompt’s prefix and bill it at a fraction of the price when the next request begins with the same tokens.",
};
export const injection: Source = {
  sid: 2,
  title: "Prompt injection: text that wants to be obeyed",
  url: "https://example.com/library/prompt-injection",
  path: "",
  snippet: "Text in a web page, a file or a tool’s result that addresses the model instead of the reader.",
};
export const sources = new Map([
  [1, caching],
  [2, injection],
]);
