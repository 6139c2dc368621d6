/** Approval requests, and how they were settled. */

import type { Approval, Call, Round, Thread } from "../../src/thread/thread.ts";
import { approval, at, call, program, round, source } from "./build.ts";
import type { State } from "./fixtures.ts";

const mail = (more: Partial<Approval>, state: Call["state"]): Call =>
  call("mail.send", {
    params: { to: "ada@example.com", subject: "Totals", body: { chars: 112 } },
    state,
    startedAt: state === "ok" ? at(9) : null,
    durationMs: state === "waiting" ? null : 340,
    approval: approval(more),
  });

const waits = (one: Call): Round =>
  round(2, "I send the totals to Ada.", {
    state: "acting",
    action: "call_tool",
    endedAt: null,
    decidedAt: at(7),
    calls: [one],
  });

/** `withRound` puts a round at the end of a running turn. */
export function approvalStates(withRound: (last: Round) => Thread): Readonly<Record<string, State>> {
  const now = at(42);
  const asked = { now, thread: withRound(waits(mail({}, "waiting"))) };
  const code = call("exec_tools.execute_code_python", {
    state: "waiting",
    startedAt: null,
    durationMs: null,
    program: program({ state: "ready", startedAt: null, ranAt: null, deadline: null }),
    approval: approval({ params: { timeout_s: 600 }, code: source, editable: false, rule: "first_use" }),
  });
  const settled: readonly Call[] = [
    mail({ state: "approved" }, "ok"),
    mail({ state: "edited", client: "desk" }, "skipped"),
    mail({ state: "denied", text: "Not before Monday." }, "skipped"),
    mail({ state: "expired" }, "skipped"),
    mail({ state: "withdrawn" }, "skipped"),
    mail({ state: "stopped" }, "skipped"),
  ];
  return {
    "approval-asked": asked,
    "approval-program": { now, thread: withRound(waits(code)) },
    "approval-late": { now: at(700), thread: withRound(waits(mail({}, "waiting"))) },
    "approval-deny": { ...asked, press: [".ask-acts .act:nth-child(2)"] },
    "approval-edit": { ...asked, press: [".ask-acts .act:nth-child(3)"] },
    "approval-settled": {
      now,
      thread: withRound(round(2, "I send the totals to Ada.", { state: "acting", endedAt: null, calls: settled })),
    },
  };
}
