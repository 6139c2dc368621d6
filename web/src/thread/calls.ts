/** The calls of a round. They run one after the other; each ends with its result before the next begins. */

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
    live: null,
    search: null,
    fetched: null,
    program: null,
    approval: null,
  };
}

export function hasEnded(call: Call): boolean {
  return ENDED.has(call.state);
}

/** Return the calls. The first that has not ended is running from `at` on, unless it waits for approval. */
export function advance(calls: readonly Call[], at: number): readonly Call[] {
  const next = calls.findIndex((call) => !hasEnded(call));
  const call = calls[next];
  if (call?.state !== "written") return calls;
  return calls.with(next, { ...call, state: "running", startedAt: at });
}

/** Change a call, in whichever round of the turn it is. */
export function changeCall(turn: Turn, callId: string, change: (call: Call) => Call): Turn {
  return changed(turn, {
    rounds: changedLast(
      turn.rounds,
      (round) => round.calls.some((call) => call.callId === callId),
      (round) => changed(round, { calls: changedLast(round.calls, (call) => call.callId === callId, change) }),
    ),
  });
}
