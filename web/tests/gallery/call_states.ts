/** States of tools, programs and texts while they are written. */

import type { Call, Round, Thread } from "../../src/thread/thread.ts";
import { at, caching, call, draft, growing, grown, injection, program, round } from "./build.ts";
import type { State } from "./fixtures.ts";

const acting = (calls: readonly Call[], notes = "I look at it from several sides.") =>
  round(2, notes, { state: "acting", action: "call_tool", endedAt: null, decidedAt: at(7), calls });

const tools: readonly Call[] = [
  call("react.read", {
    params: { paths: "fi:turn_1.files/plan.md", from: 1, lines: 40, whole: true, filter: { items: 3 } },
    preview: "1. Choose what the file says\n2. Write the file\n3. Read the file back and report the word",
    paths: ["fi:turn_1.files/plan.md"],
    durationMs: 12,
  }),
  call("react.write", {
    params: { path: "summary.md", content: { chars: 112 } },
    state: "error",
    code: "bad_params",
    durationMs: 3,
  }),
  call("mail.send", {
    params: { to: "ada@example.com" },
    state: "unverified",
    code: "unverified",
    durationMs: 30_000,
  }),
  call("react.hide", { state: "skipped", code: "steered", durationMs: 0 }),
  call("web_tools.web_fetch", {
    params: { urls: { items: 2 } },
    state: "running",
    startedAt: at(7.1),
    durationMs: null,
  }),
  call("react.pull", { state: "written", startedAt: null, durationMs: null }),
];

const lookups: readonly Call[] = [
  call("web_tools.web_search", {
    params: { query: "prompt caching", limit: 5 },
    search: { objective: "prompt caching", queries: ["prompt caching"], results: [caching, injection] },
    durationMs: 412,
  }),
  call("web_tools.web_fetch", {
    params: { urls: { items: 2 } },
    fetched: {
      objective: "Read both pages",
      results: [
        { ...caching, status: "ok", error: "" },
        { ...injection, sid: 3, status: "error", error: "timeout" },
      ],
    },
    durationMs: 1_912,
  }),
  call("crm.lookup", {
    params: { name: "Lovelace" },
    events: [
      {
        type: "crm.match",
        data: {
          id: 4_711,
          name: "Ada Lovelace",
          orders: [
            { id: 1, sum: 12.5 },
            { id: 2, sum: 40 },
          ],
        },
      },
      { type: "crm.note", data: "a customer since 1843" },
    ],
    preview: "1 customer",
    durationMs: 88,
  }),
];

const exec = "exec_tools.execute_code_python";

const programs: Readonly<Record<string, Call>> = {
  "program-writing": call(exec, {
    state: "written",
    startedAt: null,
    durationMs: null,
    program: program({
      state: "writing",
      startedAt: null,
      ranAt: null,
      deadline: null,
      codegenMs: null,
      code: growing('import pandas as pd\n\nsales = pd.read_csv(OUT / "sal'),
    }),
  }),
  "program-ready": call(exec, {
    state: "written",
    startedAt: null,
    durationMs: null,
    program: program({ state: "ready", startedAt: null, ranAt: null, deadline: null }),
  }),
  "program-starting": call(exec, {
    state: "running",
    startedAt: at(3),
    durationMs: null,
    program: program({ state: "starting", startedAt: at(3), ranAt: null }),
  }),
  "program-running": call(exec, {
    state: "running",
    startedAt: at(3),
    durationMs: null,
    program: program({ startedAt: at(3), ranAt: at(8) }),
  }),
  "program-collecting": call(exec, {
    state: "running",
    startedAt: at(3),
    durationMs: null,
    program: program({ state: "collecting", startedAt: at(3), ranAt: at(4), endedAt: at(7) }),
  }),
  "program-done": call(exec, {
    durationMs: 15_700,
    paths: ["fi:turn_1.outputs/totals.csv", "fi:turn_1.outputs/totals.png", "fi:turn_1.outputs/notes.txt"],
    preview: "6 months, 12,340.00 in all",
    program: program({
      state: "done",
      startMs: 9_400,
      execMs: 6_100,
      collectMs: 200,
      contract: [
        { filename: "outputs/totals.csv", description: "A line a month.", internal: false },
        { filename: "outputs/totals.png", description: "One bar a month.", internal: false },
        { filename: "cache.json", description: "", internal: true },
      ],
      log: { base: 0, text: "reading sales.csv\n184 rows\n6 months\n", whole: true, bytes: 36 },
    }),
  }),
  "program-error": call(exec, {
    state: "error",
    code: "timeout",
    durationMs: 600_000,
    program: program({
      state: "error",
      errorCode: "timeout",
      execMs: 600_000,
      log: { base: 81_204, text: `${"row 1234 done\n".repeat(40)}KilledByDeadline`, whole: true, bytes: 146_740 },
    }),
  }),
};

const lastTab = "[role=tab]:nth-child(2)";

function writing(aborted: string): Round {
  const text = "# Totals\n\nSix months of sales, by month.\n\n| month | total |\n|---|---|\n| 2026-01 | 2,0";
  return round(2, "I write totals.md.", {
    state: "deciding",
    action: "",
    decidedAt: null,
    endedAt: null,
    drafts: [
      draft("plan.md", grown("1. Choose what the file says\n2. Write the file\n3. Read it back\n")),
      draft("totals.md", aborted ? { text, whole: true, aborted } : growing(text)),
    ],
  });
}

/** `withRound` puts a round at the end of a running turn. */
export function callStates(withRound: (last: Round) => Thread): Readonly<Record<string, State>> {
  const now = at(12.2);
  const ofPrograms = Object.entries(programs).map(([name, one]): [string, State] => [
    name,
    { now, thread: withRound(acting([one], "I compute the totals with a program.")) },
  ]);
  const failed = programs["program-error"] as Call;
  const whole = programs["program-done"] as Call;
  return {
    tools: { now, thread: withRound(acting(tools)) },
    "tools-results": { now, thread: withRound(acting(lookups)) },
    ...Object.fromEntries(ofPrograms),
    "program-log": { now, thread: withRound(acting([failed])), press: [lastTab] },
    "program-files": { now, thread: withRound(acting([whole])), press: ["[role=tab]:nth-child(3)"] },
    "draft-growing": { now, thread: withRound(writing("")) },
    "draft-cut": { now, thread: withRound(writing("cancelled")) },
  };
}
