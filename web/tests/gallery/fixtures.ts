/** Every state of every part of a thread and its margin, by name. */

import type { Message, Receipt, Thread, Turn } from "../../src/thread/thread.ts";
import type { ThreadContext } from "../../src/ui/acts.ts";
import { approvalStates } from "./approval_states.ts";
import { branchStates } from "./branch_states.ts";
import {
  answer,
  at,
  attached,
  caching,
  call,
  compaction,
  done,
  file,
  growing,
  grown,
  injection,
  message,
  plan,
  priced,
  program,
  receipt,
  round,
  sources,
  thread,
  turn,
  usage,
} from "./build.ts";
import { callStates } from "./call_states.ts";
import { fileStates } from "./file_states.ts";

export interface State {
  readonly thread: Thread;
  readonly context?: Partial<ThreadContext>;
  /** The time of the screenshot. */
  readonly now?: number;
  /** Open keys, as in `ThreadContext.open`. */
  readonly open?: readonly string[];
  /** Elements to press one after another after the render. */
  readonly press?: readonly string[];
  /** The element to focus afterwards. */
  readonly focus?: string;
}

const found = `What I found about “prompt caching”:

- “Providers of language models can keep the computed state of a prompt’s prefix and bill it at a fraction of the price when the next request begins with the same tokens.” [Prompt caching of language models](https://example.com/library/prompt-caching "S:1")
- “Prompt injection is text in a web page, a file or a tool’s result that addresses the model instead of the reader: ignore your instructions, send this, call that.” [Prompt injection](https://example.com/library/prompt-injection "S:2")

I am a small program with fixed rules. To talk to a real model, set \`ANTHROPIC_API_KEY\` and run \`stepline up\` again.`;

const searched = call("web_tools.web_search", {
  params: { query: "prompt caching" },
  search: {
    objective: "prompt caching",
    queries: ["prompt caching"],
    results: [caching, injection],
  },
});

const searchRounds = [
  round(0, "I search for prompt caching.", {
    calls: [searched],
    decidedAt: at(1.2),
    usage: usage(5_044, 716, 402, 168),
    thinking: grown("One search is enough; I quote a sentence of each page that fits."),
  }),
  round(1, "Everything asked for is settled; I answer.", { usage: usage(5_760, 2_214, 431, 612), decidedAt: at(3.2) }),
];

/** A turn of 2.9 s, by part. */
const turnParts: Receipt["parts"] = [
  { is: "model", ms: 2_600 },
  { is: "tools", ms: 142 },
  { is: "between", ms: 158 },
];

const kumquat = done(
  "Make a plan with three steps, write it to a file with the word kumquat in it and read it back.",
  [
    round(0, "I lay out a plan first.", { calls: [call("react.plan")] }),
    round(1, "I write the file.", { calls: [call("react.write")] }),
    round(2, "I read it back.", { calls: [call("react.read")] }),
    round(3, "I answer."),
  ],
  "I wrote [`plan.md`](fi:turn_1.files/plan.md) with the three steps of the plan and read it back: the word in it is **kumquat**.",
  {
    startedAt: at(-540),
    endedAt: at(-537.1),
    receipt: receipt({ elapsedMs: 2900, parts: turnParts, rounds: 4, weightedTokens: 12_900 }),
  },
);

const steps = plan([
  { text: "Choose what the file says", status: "done" },
  { text: "Write the file", status: "done" },
  { text: "Read the file back and report the word", status: "done" },
]);

const foundTurn = done("Search for prompt caching and tell me what you find.", searchRounds, found, {
  citations: [caching, injection],
  followups: ["Make a plan with three steps", "Write what you found to cache.md"],
});

const planMd = file("plan.md", 112);

function foundThread(more: Partial<Turn> = {}): Thread {
  return thread([{ ...foundTurn, ...more }], { plans: [steps], files: [planMd], sources });
}

const salesRounds = [
  round(0, "I lay out a plan first.", {
    calls: [call("react.plan", { durationMs: 4, startedAt: at(1.9) })],
    startedAt: at(0),
    decidedAt: at(1.9),
    endedAt: at(1.904),
    usage: usage(5_044, 716, 402, 168),
  }),
  round(1, "I write sales.csv: 184 rows, one a day.", {
    calls: [call("react.write", { durationMs: 31, startedAt: at(5.3) })],
    startedAt: at(2),
    decidedAt: at(5.3),
    endedAt: at(5.331),
    usage: usage(12_100, 2_300, 431, 2_612),
  }),
];

const running = round(2, "I compute the totals with a program.", {
  state: "acting",
  startedAt: at(5.4),
  decidedAt: at(10.1),
  endedAt: null,
  thinking: grown("The file is of this turn, so a program finds it in its outputs; no pull is needed."),
  usage: usage(12_136, 2_230, 434, 412),
  calls: [
    call("exec_tools.execute_code_python", {
      state: "running",
      startedAt: at(10.1),
      durationMs: null,
      program: program(),
    }),
  ],
});

const waiting: Message = message("Give the totals in euros, too.", {
  kind: "followup",
  at: at(14),
  state: { is: "waiting" },
});

const salesPlan = plan([
  { text: "Write sales.csv with six months", status: "done" },
  { text: "Compute the monthly totals", status: "in_progress" },
  { text: "Draw the chart and answer", status: "pending" },
]);

const prompt = "Write a CSV of sales over six months, sum them by month and draw a chart.";

function sales(more: Partial<Turn> = {}): Thread {
  const open = turn(prompt, [...salesRounds, running], { messages: [{ ...waiting, after: 3 }], ...more });
  return thread([kumquat, open], { plans: [steps, salesPlan], files: [planMd, file("sales.csv", 4_710)], sources });
}

const nowRunning = at(14.2);

/** A turn whose newest round is `last`. */
function withRound(last: ReturnType<typeof round>, more: Partial<Turn> = {}): Thread {
  const shown = { ...last, iteration: 2, startedAt: at(5.4), decidedAt: last.decidedAt && at(8) };
  return sales({ rounds: [...salesRounds, shown], messages: [], ...more });
}

const alive = { action: "", decidedAt: null, endedAt: null } as const;

const rounds: Readonly<Record<string, State>> = {
  "round-thinking": {
    now: at(9.2),
    thread: withRound(
      round(2, "", {
        ...alive,
        state: "thinking",
        thinking: growing(
          "The file is of this turn, so a program finds it in its outputs; no pull is needed.\nMonths are the first seven characters of a date.\nA bar chart needs an axis that begins at zero.\nThe values could stand above the bars, if there is room for",
        ),
      }),
    ),
  },
  "round-deciding": {
    now: at(9.2),
    thread: withRound(
      round(2, "I compute the totals with a", {
        ...alive,
        state: "deciding",
        notes: growing("I compute the totals with a"),
      }),
    ),
  },
  "round-refused": {
    thread: withRound(
      round(2, "I write the file.", {
        refused: true,
        action: "call_tool",
        items: [{ is: "rejected", code: "unknown_tool_id", toolId: "react.wriet", actionIndex: null }],
      }),
    ),
  },
  "round-cut": {
    thread: withRound(round(2, "I compute the totals with a", { interrupted: true })),
  },
  "round-restarted": {
    now: at(12.2),
    thread: withRound(
      round(2, "", {
        ...alive,
        state: "thinking",
        thinking: growing("Once more from the beginning."),
        items: [{ is: "restarted", attempt: 1, at: at(9) }],
      }),
    ),
  },
  "round-waits-for-provider": {
    now: at(9.2),
    thread: withRound(
      round(2, "", {
        ...alive,
        state: "thinking",
        items: [{ is: "waiting", code: "model_overloaded", until: at(21.1), attempt: 2, attempts: 4 }],
      }),
    ),
  },
  "turn-in-line": {
    now: at(9.2),
    thread: thread([turn("Compare the two offers.", [round(0, "", { ...alive, state: "thinking" })], { place: 3 })]),
  },
  "round-remarks": {
    thread: withRound(
      round(2, "I read three files at once.", {
        action: "call_tool",
        calls: [],
        items: [
          { is: "notice", code: "final_answer_with_notes" },
          { is: "rejected", code: "multi_action_bundle_too_many_actions", toolId: "react.read", actionIndex: 2 },
          {
            is: "event",
            toolId: "hooks.audit",
            type: "audit.recorded",
            data: { rule: "four eyes", by: ["ada", "grace"], passed: true },
          },
        ],
      }),
    ),
  },
};

function compacted(item: ReturnType<typeof compaction>): Thread {
  const last = round(2, "I go on with what is left.", {
    ...alive,
    state: "deciding",
    items: [{ is: "compaction", compactionId: item.compactionId }],
  });
  return withRound(last, { compactions: [item] });
}

const compactions: Readonly<Record<string, State>> = {
  "compaction-running": { now: nowRunning, thread: compacted(compaction({ ended: false, afterTokens: null })) },
  "compaction-done": { now: nowRunning, thread: compacted(compaction()) },
  "compaction-nothing": {
    now: nowRunning,
    thread: compacted(compaction({ afterTokens: 81_000, reason: "nothing_to_compact", coveredTurns: 0 })),
  },
};

const added = message("Give the totals in euros, too.", { kind: "followup", at: at(4) });
const steered = message("Only the totals, please, no chart.", { kind: "steer", at: at(8) });

const messages: Readonly<Record<string, State>> = {
  "message-sending": {
    thread: foundThread(),
    context: { outbox: [message("And what does it cost?", { n: 0, at: at(60) })] },
  },
  "message-trying": tried("busy", true),
  "message-refused": tried("message_id_taken", false),
  "message-adding": { now: nowRunning, thread: sales({ messages: [] }), context: { outbox: [{ ...added, n: 0 }] } },
  "message-waits": { now: nowRunning, thread: sales() },
  "message-read": {
    now: nowRunning,
    thread: sales({ messages: [{ ...added, state: { is: "read", iteration: 2 }, after: 2 }] }),
  },
  "message-interrupting": {
    now: nowRunning,
    thread: sales({ messages: [{ ...steered, state: { is: "waiting" }, after: 3 }] }),
  },
  "message-heeded": {
    now: nowRunning,
    thread: sales({
      ending: 2,
      messages: [{ ...steered, state: { is: "heeded", phase: "tools", finalizeRounds: 2 }, after: 2 }],
    }),
  },
  "message-handed-back": {
    thread: foundThread({
      messages: [{ ...steered, state: { is: "dropped", reason: "turn_closed" }, after: 2 }],
    }),
  },
  "message-kinds": {
    thread: thread([
      {
        ...foundTurn,
        prompts: [
          message("Room in Bern for four guests, from Friday", {
            kind: "form",
            source: "booking",
            attachments: [attached("offer.pdf", 184_320), attached("guests \u202egnp.exe.csv", 812)],
          }),
          message("Disk at 99 % on db-3", { kind: "alert", source: "monitor" }),
        ],
      },
    ]),
  },
  "message-long": { thread: foundThread({ prompts: [message("Please read this first. ".repeat(60))] }) },
};

function tried(code: string, trying: boolean): State {
  const sent = message("And what does it cost?", { n: 0, at: at(60) });
  const problem = { code, trying, message: trying ? "" : "Another message has this id." };
  return {
    thread: foundThread(),
    context: { outbox: [sent], problems: new Map([[sent.messageId, problem]]) },
  };
}

const answering = round(2, "Everything asked for is settled; I answer.", { ...alive, state: "deciding" });

const answers: Readonly<Record<string, State>> = {
  "answer-streaming": {
    now: at(9.2),
    thread: withRound(answering, {
      answers: [answer(`${found.slice(0, 620)}`, { state: "streaming", iteration: 2, claim: 3, lane: "answer.0" })],
    }),
  },
  "answer-deferred": {
    thread: foundThread({
      rounds: [...searchRounds, round(2, "I add the totals in euros.")],
      messages: [{ ...added, state: { is: "read", iteration: 2 }, after: 2 }],
      answers: [
        answer("The totals are below, in francs: **12,340**.", { state: "deferred" }),
        answer(found, { iteration: 2 }),
      ],
    }),
  },
  "answer-replacing": {
    now: at(9.2),
    thread: withRound(answering, {
      answers: [answer("The totals are below: **12,340**.", { state: "cut", iteration: 1 })],
      messages: [{ ...steered, state: { is: "heeded", phase: "decision", finalizeRounds: 2 }, after: 2 }],
      ending: 2,
    }),
  },
  "answer-replaced": {
    thread: foundThread({
      rounds: [...searchRounds, round(2, "I give the totals alone.")],
      messages: [{ ...steered, state: { is: "heeded", phase: "decision", finalizeRounds: 2 }, after: 2 }],
      answers: [
        answer("The totals are below: **12,340**.", { state: "cut", iteration: 1 }),
        answer(found, { iteration: 2 }),
      ],
      outcome: { is: "completed", reason: "steer", message: "" },
    }),
  },
  "answer-cut": {
    thread: foundThread({
      answers: [answer(found.slice(0, 260), { state: "cut" })],
      outcome: { is: "completed", reason: "stop", message: "" },
      unresolvedSids: [7],
    }),
  },
  "end-steer": { thread: foundThread({ outcome: { is: "completed", reason: "steer", message: "" } }) },
  "end-rounds": {
    thread: foundThread({
      outcome: { is: "completed", reason: "max_iterations", message: "The rounds of this turn are used up." },
    }),
  },
  "end-error": broke("step_failed", 0, true),
  "end-error-wait": broke("model_overloaded", 10, true),
  "end-error-context": broke("context_limit", 0, false),
  "end-error-refused": broke("model_refused", 0, false),
};

function broke(code: string, retryAfterS: number, partly: boolean): State {
  return {
    now: at(5),
    thread: foundThread({
      answers: partly ? [answer(found.slice(0, 260), { state: "streaming" })] : [],
      outcome: { is: "error", code, message: "", retryable: retryAfterS > 0, retryAfterS },
      citations: [],
      followups: [],
    }),
  };
}

const receiptOpen = [`+${foundTurn.turnId}/receipt`];

const ends: Readonly<Record<string, State>> = {
  "receipt-open": { thread: foundThread(), open: receiptOpen },
  "receipt-bust": {
    open: receiptOpen,
    thread: foundThread({
      rounds: searchRounds.map((known) =>
        known.iteration === 1
          ? { ...known, bust: { reason: "hide", expectedTokens: 8_100, readTokens: 2_100 } }
          : known,
      ),
    }),
  },
  "receipt-priced": {
    open: receiptOpen,
    thread: foundThread({ receipt: receipt({ usd: 0.0291, priced: true, lines: priced }) }),
  },
  "receipt-estimated": {
    open: receiptOpen,
    thread: foundThread({ receipt: receipt({ usage: usage(10_804, 2_930, 833, 780, true) }) }),
  },
  "feedback-up": { thread: foundThread({ feedback: [{ origin: "user", reaction: "ok", text: "" }] }) },
  "feedback-down": { thread: foundThread(), press: ["[aria-label='Bad answer']"] },
  "feedback-said": {
    thread: foundThread({
      feedback: [
        { origin: "user", reaction: "not_ok", text: "Too long, and the second quote is beside the point." },
        { origin: "machine", reaction: "ok", text: "It cites what it says." },
      ],
    }),
  },
  "citation-card": { thread: foundThread(), focus: ".say .cite" },
};

const margins: Readonly<Record<string, State>> = {
  "plan-several": {
    thread: {
      ...foundThread(),
      plans: [
        { ...steps, current: false, open: false },
        plan([
          { text: "Ask for an offer", status: "done" },
          { text: "Compare it with last year's", status: "failed" },
          { text: "Write to the hotel", status: "pending" },
        ]),
      ],
    },
  },
  "plan-changed": {
    now: nowRunning,
    thread: { ...sales(), plans: [{ ...salesPlan, changed: 1, versions: 3 }] },
  },
  "plan-draft": {
    now: at(9.2),
    thread: {
      ...withRound(
        round(2, "I lay out a plan", {
          ...alive,
          state: "deciding",
          planDraft: growing("Sales of six months\n\n1. Write sales.csv\n2. Compute the mon"),
        }),
      ),
      plans: [],
    },
  },
  "margin-files": {
    now: nowRunning,
    thread: {
      ...sales(),
      files: [...Array(12)].map((_, n) => file(`report-${n + 1}.md`, 812 * (n + 1) ** 3, { times: n === 11 ? 2 : 1 })),
    },
  },
  "margin-compacted": { thread: compacted(compaction()) },
  "margin-empty": { thread: thread([]) },
};

const wholes: Readonly<Record<string, State>> = {
  done: { thread: foundThread(), open: receiptOpen },
  running: { now: nowRunning, thread: sales() },
  "several-turns": {
    thread: thread([kumquat, foundTurn, { ...kumquat, turnId: "turn_c" }, { ...foundTurn, turnId: "turn_d" }], {
      sources,
      turnsBefore: 231,
    }),
    context: { earlier: "some" },
  },
  opened: { thread: foundThread(), open: [`+${foundTurn.turnId}/0`, `+${foundTurn.turnId}/1`] },
  "loose-kept": {
    thread: thread([foundTurn], {
      loose: [message("disk at 91 %", { kind: "alert", source: "monitor", n: 9_999, at: at(90) })],
    }),
  },
  hostile: {
    thread: foundThread({
      prompts: [message(`\u202eevil\u202c <script>alert(1)</script> ${"x".repeat(300)}`)],
      rounds: [
        round(0, "مرحبا، سأبحث الآن", {
          calls: [
            call("web_tools.\u202ehcraes\u202c", {
              params: { query: "y".repeat(118), "\u200bkey": "<img src=x onerror=alert(1)>" },
              preview: "z".repeat(590),
              paths: [`fi:turn_1.files/${"a".repeat(140)}\u202efdp.exe`],
            }),
          ],
        }),
      ],
      citations: [],
    }),
    open: [`+${foundTurn.turnId}/0`],
  },
};

export const states: Readonly<Record<string, State>> = {
  ...wholes,
  ...rounds,
  ...callStates(withRound),
  ...approvalStates(withRound),
  ...branchStates,
  ...fileStates,
  ...compactions,
  ...messages,
  ...answers,
  ...ends,
  ...margins,
};
