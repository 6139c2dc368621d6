/** The actions of a round, from their events: called, waiting for approval, ended. */

import type { ClientEvent } from "../client/index.ts";
import { advance, changeCall, emptyCall, hasEnded } from "./calls.ts";
import { type Data, flagOf, numberOf, objectOf, textOf, textsOf, timeOf, timeOrNull } from "./fields.ts";
import { changeRound, withItem, withOpenRound } from "./rounds.ts";
import { changed, changedLast } from "./share.ts";
import type { Approval, Call, CallState, Progress, Round, Turn } from "./thread.ts";

/** Result codes of calls that a person prevented. */
const NOT_RUN: ReadonlySet<string> = new Set(["steered", "denied", "approval_expired"]);

/** Add the parameters to a call. A call that no decision listed is added to its round. */
export function callStarted(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const callId = textOf(data, "call_id");
  return changeCall(withCall(turn, data), callId, (call) => ({ ...call, params: objectOf(data, "params") }));
}

function withCall(turn: Turn, data: Data): Turn {
  const callId = textOf(data, "call_id");
  if (turn.rounds.some((round) => round.calls.some((call) => call.callId === callId))) return turn;
  const call = emptyCall(callId, textOf(data, "tool_id"));
  return changeRound(turn, numberOf(data, "iteration"), (round) => ({
    ...withItem(round, { is: "call", callId }),
    calls: [...round.calls, call],
  }));
}

/** Add the end of a call and begin the next one. After the last one the model runs again, unless it has answered. */
export function callEnded(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const callId = textOf(data, "call_id");
  const at = timeOf(event.ts);
  const ended = changeCall(withCall(turn, data), callId, (call) => withResult(call, data, at));
  const iteration = numberOf(data, "iteration");
  const after = changeRound(ended, iteration, (round) => acted(round, at));
  const round = after.rounds.at(-1);
  const goesOn = round?.iteration === iteration && round.state === "done" && round.action === "call_tool";
  return goesOn && after.outcome.is === "running" ? withOpenRound(after, at) : after;
}

function withResult(call: Call, data: Data, at: number): Call {
  const code = textOf(data, "code");
  const durationMs = numberOf(data, "duration_ms");
  return {
    ...call,
    state: resultState(textOf(data, "status"), code),
    live: null,
    startedAt: NOT_RUN.has(code) ? null : at - durationMs,
    durationMs,
    paths: textsOf(data, "paths"),
    preview: textOf(data, "preview"),
    code,
  };
}

function resultState(status: string, code: string): CallState {
  if (NOT_RUN.has(code)) return "skipped";
  return status === "ok" || status === "unverified" ? status : "error";
}

/** Return the round after the end of one of its calls. */
function acted(round: Round, at: number): Round {
  const calls = advance(round.calls, at);
  if (!calls.every(hasEnded) || round.decidedAt === null) return changed(round, { calls });
  return { ...round, calls, state: "done", endedAt: at, planDraft: null };
}

/** Add an event that a tool emitted while it ran. An event of a hook is an item of the round. */
export function toolEmitted(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const callId = textOf(data, "call_id");
  const one = { type: textOf(data, "type"), data: data.data };
  const called = changeCall(turn, callId, (call) => ({ ...call, events: [...call.events, one] }));
  if (called !== turn || turn.rounds.length === 0) return called;
  const last = (turn.rounds.at(-1) as Round).iteration;
  return changeRound(turn, last, (round) => withItem(round, { is: "event", toolId: textOf(data, "tool_id"), ...one }));
}

/** Add reports of a running call. Those of another attempt, on another lane, replace the ones before. */
export function withReports(turn: Turn, lane: string, events: readonly ClientEvent[]): Turn {
  return events.reduce((before, { type, data }) => {
    return changeCall(before, textOf(data, "call_id"), (call) => {
      if (hasEnded(call)) return call;
      const live = call.live?.lane === lane ? call.live : { lane, progress: null, events: [] };
      if (type === "react.tool.progress") return { ...call, live: { ...live, progress: progressOf(data) } };
      const one = { type: textOf(data, "type") || type, data: data.data ?? data };
      return { ...call, live: { ...live, events: [...live.events, one] } };
    });
  }, turn);
}

function progressOf(data: Data): Progress {
  return { done: numberOf(data, "done"), total: numberOf(data, "total"), text: textOf(data, "text") };
}

/** Let a call wait for approval. */
export function approvalAsked(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const callId = textOf(data, "call_id");
  const approval: Approval = {
    state: "asked",
    rule: textOf(data, "rule"),
    editable: flagOf(data, "editable"),
    params: objectOf(data, "params"),
    code: textOf(data, "code"),
    until: timeOrNull(textOf(data, "until")),
    text: "",
    editedCallId: "",
    client: "",
  };
  const asked = changeCall(withCall(turn, data), callId, (call) => ({
    ...call,
    state: "waiting",
    startedAt: null,
    approval,
  }));
  return changed(asked, { approval: callId });
}

/** Let a call continue, or drop it. The call that runs instead of an edited one is inserted after it. */
export function approvalAnswered(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const callId = textOf(data, "call_id");
  const verdict = textOf(data, "verdict") as Approval["state"];
  // A withdrawal arrives together with its cause: a stop, or another message.
  const state = verdict === "withdrawn" && turn.ending === 0 ? "stopped" : verdict;
  const at = timeOf(event.ts);
  const editedCallId = textOf(data, "edited_call_id");
  const answer = { state, text: textOf(data, "text"), editedCallId, client: textOf(data, "client") };
  const settled = changeCall(turn, callId, (call) => ({
    ...call,
    state: verdict === "approved" ? "running" : verdict === "edited" ? "skipped" : call.state,
    startedAt: verdict === "approved" ? at : null,
    approval: call.approval && { ...call.approval, ...answer },
  }));
  const answered = changed(settled, { approval: "" });
  if (!editedCallId) return answered;
  const instead: Call = {
    ...emptyCall(editedCallId, textOf(data, "tool_id")),
    params: objectOf(data, "params"),
    state: "running",
    startedAt: at,
  };
  return changed(answered, {
    rounds: changedLast(
      answered.rounds,
      (round) => round.calls.some((call) => call.callId === callId),
      (round) => withInstead(round, callId, instead),
    ),
  });
}

function withInstead(round: Round, callId: string, instead: Call): Round {
  const place = round.calls.findIndex((call) => call.callId === callId) + 1;
  const item = round.items.findIndex((one) => one.is === "call" && one.callId === callId) + 1;
  return {
    ...round,
    calls: round.calls.toSpliced(place, 0, instead),
    items: round.items.toSpliced(item, 0, { is: "call", callId: instead.callId }),
  };
}
