/**
 * Maps every event to its effect on its turn, and on the thread as a whole.
 *
 * `docs/reference/events.md` describes where each event is shown. A type that is in none of these tables belongs to a
 * later release; it is counted, and changes nothing.
 */

import type { ClientEvent } from "../client/index.ts";
import { approvalAnswered, approvalAsked, callEnded, callStarted, toolEmitted } from "./acting.ts";
import { numberOf, numberOrNull, rowsOf, textOf } from "./fields.ts";
import { filesOf, withFiles } from "./files.ts";
import { planChanged, planOf, withPlan } from "./plans.ts";
import {
  programDescribed,
  programNamed,
  programPrinted,
  programPromised,
  programStatusChanged,
  programWritten,
} from "./programs.ts";
import { changeRound, decide, withItem } from "./rounds.ts";
import { fetched, searched, withSources } from "./sources.ts";
import type { Thread, Turn } from "./thread.ts";
import {
  accounted,
  begun,
  cited,
  compacted,
  completed,
  deferred,
  failed,
  interrupted,
  queuedTurn,
  rated,
  restarted,
  suggested,
  summed,
  timed,
  waiting,
} from "./turns.ts";

type InTurn = (turn: Turn, event: ClientEvent, n: number) => Turn;
type InThread = (thread: Thread, event: ClientEvent) => Thread;

/** Return an event's name: its type, with its step where one type has several. */
export function nameOf(event: ClientEvent): string {
  return event.type === "chat.step" ? `${event.type} ${event.step}` : event.type;
}

export const IN_TURN: Readonly<Record<string, InTurn>> = {
  "solver.react.decision": decide,
  "react.tool.call": callStarted,
  "react.tool.result": callEnded,
  "react.tool.event": toolEmitted,
  "react.tool.rejected": (turn, { data }) =>
    changeRound(turn, numberOf(data, "iteration"), (round) =>
      withItem(round, {
        is: "rejected",
        code: textOf(data, "code"),
        toolId: textOf(data, "tool_id"),
        actionIndex: numberOrNull(data, "action_index"),
      }),
    ),
  "react.notice": (turn, { data }) =>
    changeRound(turn, numberOf(data, "iteration"), (round) =>
      withItem(round, { is: "notice", code: textOf(data, "code") }),
    ),
  "accounting.cache_bust": (turn, { data }) =>
    changeRound(turn, numberOf(data, "iteration"), (round) => ({
      ...round,
      bust: {
        reason: textOf(data, "reason"),
        expectedTokens: numberOf(data, "expected_tokens"),
        readTokens: numberOf(data, "read_tokens"),
      },
    })),
  "turn.queued": queuedTurn,
  "turn.begun": begun,
  "round.restarted": restarted,
  "round.waiting": waiting,
  "chat.compaction": compacted,
  "approval.requested": approvalAsked,
  "approval.answered": approvalAnswered,
  "web_search.filtered_results": searched,
  "web_fetch.results": fetched,
  "code_exec.objective": programDescribed,
  "code_exec.program.name": programNamed,
  "code_exec.code": programWritten,
  "code_exec.contract": programPromised,
  "code_exec.log": programPrinted,
  "code_exec.status": programStatusChanged,
  "react.plan": planChanged,
  "chat.files": (turn, event) => ({ ...turn, files: withFiles(turn.files, filesOf(event)) }),
  "chat.step deferred": deferred,
  "timeline.external.steer.interrupted": interrupted,
  "chat.citations": cited,
  "chat.followups": suggested,
  "chat.conversation.turn.completed": timed,
  "chat.turn.summary": summed,
  "accounting.usage": accounted,
  "chat.complete": completed,
  "chat.error": failed,
  "turn.feedback": rated,
};

export const IN_THREAD: Readonly<Record<string, InThread>> = {
  "conv.status": (thread, { data }) => {
    const state = textOf(data, "state");
    const known = state === "in_progress" || state === "idle" || state === "error" ? state : "created";
    return { ...thread, state: known };
  },
  "chat.conversation.title": (thread, { data }) => ({ ...thread, title: textOf(data, "title") }),
  "react.plan": (thread, event) => ({ ...thread, plans: withPlan(thread.plans, planOf(event)) }),
  "chat.files": (thread, event) => ({ ...thread, files: withFiles(thread.files, filesOf(event)) }),
  "chat.citations": (thread, { data }) => withRows(thread, data, "items"),
  "chat.sources": (thread, { data }) => withRows(thread, data, "items"),
  "web_search.filtered_results": (thread, { data }) => withRows(thread, data, "results"),
  "web_fetch.results": (thread, { data }) => withRows(thread, data, "results"),
};

function withRows(thread: Thread, data: ClientEvent["data"], name: string): Thread {
  return { ...thread, sources: withSources(thread.sources, rowsOf(data, name)) };
}

/** Events that the fold itself handles, since they move messages between turns or open one. */
export const MOVED = [
  "chat.conversation.accepted",
  "queue.continuation.accepted",
  "chat.start",
  "chat.step dropped",
] as const;

/** Known events that are not shown in the thread. */
export const ELSEWHERE: readonly string[] = [
  // The rows of `web_search.filtered_results` hold the same data.
  "web_search.html_view",
  // A report: it is on a lane while its call runs, and in no batch.
  "react.tool.progress",
  // Notices about uploads have no batch: the composer shows them next to the file.
  "chat.attachments",
  "rate_limit.attachment_failure",
];

/** Events that a turn may receive although everything they refer to is on an earlier page. */
export const AFTERWARDS: ReadonlySet<string> = new Set([
  "chat.citations",
  "chat.followups",
  "chat.conversation.turn.completed",
  "chat.turn.summary",
  "accounting.usage",
  "chat.complete",
  "chat.error",
  "turn.feedback",
  "react.tool.event",
]);
