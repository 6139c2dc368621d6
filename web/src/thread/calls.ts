/** Calls of a round: they run one after the other, each with its result before the next begins. */

import { changed, changedLast } from "./share.ts";
import type { Call, CallState, Turn } from "./thread.ts";

const ENDED: ReadonlySet<CallState> = new Set(["ok", "error", "unverified", "skipped"]);

export function emptyCall(callId: string, toolId: string): Call {
  return {
    callId,
    toolId,
    params: {},
    state: "written",
    startedAt: null,
    durationMs: null,
    paths: [],
    preview: "",
    code: "",
    events: [],
    search: null,
    fetched: null,
    program: null,
    approval: null,
  };
}

export function hasEnded(call: Call): boolean {
  return ENDED.has(call.state);
}

/** Return the calls, the first that has not ended as running from `at` on, unless it waits for a person. */
export function advance(calls: readonly Call[], at: number): readonly Call[] {
  const next = calls.findIndex((call) => !hasEnded(call));
  const call = calls[next];
  if (call?.state !== "written") return calls;
  return calls.with(next, { ...call, state: "running", startedAt: at });
}

/** Change a call wherever it stands in the turn. */
export function changeCall(turn: Turn, callId: string, change: (call: Call) => Call): Turn {
  return changed(turn, {
    rounds: changedLast(
      turn.rounds,
      (round) => round.calls.some((call) => call.callId === callId),
      (round) => changed(round, { calls: changedLast(round.calls, (call) => call.callId === callId, change) }),
    ),
  });
}
