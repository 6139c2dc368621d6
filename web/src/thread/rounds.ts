/** Rounds of a turn: one opens as soon as the log says that the model runs next, and a decision settles it. */

import type { ClientEvent } from "../client/index.ts";
import { advance, emptyCall } from "./calls.ts";
import { type Data, flagOf, numberOf, numberOrNull, objectOf, rowsOf, textOf, timeOf, timeOrNull } from "./fields.ts";
import { changed, changedLast, replaced, without } from "./share.ts";
import type { Answer, Growing, Round, RoundItem, Turn, Usage } from "./thread.ts";

export const NOTHING: Growing = { text: "", whole: false, aborted: "" };

export function emptyRound(iteration: number, startedAt: number): Round {
  return {
    iteration,
    claim: 0,
    state: "thinking",
    refused: false,
    interrupted: false,
    declined: false,
    action: "",
    thinking: NOTHING,
    notes: NOTHING,
    items: [],
    calls: [],
    drafts: [],
    planDraft: null,
    startedAt,
    decidedAt: null,
    endedAt: null,
    model: "",
    usage: null,
    bust: null,
    roundsLeft: null,
    rendered: 0,
  };
}

/** Return the round whose decision is awaited, or undefined. */
export function openRound(turn: Turn): Round | undefined {
  const last = turn.rounds.at(-1);
  return last && last.decidedAt === null && last.endedAt === null ? last : undefined;
}

/** Return the turn with an open round: the existing one, or the next. */
export function withOpenRound(turn: Turn, at: number, iteration?: number): Turn {
  if (openRound(turn)) return turn;
  const next = iteration ?? (turn.rounds.at(-1)?.iteration ?? -1) + 1;
  return { ...turn, rounds: [...turn.rounds, emptyRound(next, at)] };
}

/** Return the turn without its open round, if nothing of that round was recorded. */
export function withoutEmptyRound(turn: Turn): Turn {
  const open = openRound(turn);
  if (!open || open.items.some((item) => item.is !== "draft" && item.is !== "call")) return turn;
  return { ...turn, rounds: turn.rounds.slice(0, -1) };
}

/** Change the newest round, if there is one. */
export function changeLast(turn: Turn, change: (round: Round) => Round): Turn {
  const at = turn.rounds.length - 1;
  return at < 0 ? turn : changed(turn, { rounds: replaced(turn.rounds, at, change(turn.rounds[at] as Round)) });
}

/** Change the newest round with this number, or the newest of all if none has it. */
export function changeRound(turn: Turn, iteration: number, change: (round: Round) => Round): Turn {
  if (!turn.rounds.some((round) => round.iteration === iteration)) return changeLast(turn, change);
  return changed(turn, { rounds: changedLast(turn.rounds, (round) => round.iteration === iteration, change) });
}

export function withItem(round: Round, item: RoundItem): Round {
  return { ...round, items: [...round.items, item] };
}

/** Return the round without streamed parts: thinking, notes, drafts, and calls that are only written. */
export function withoutStream(round: Round): Round {
  return changed(round, {
    state: "thinking",
    thinking: NOTHING,
    notes: NOTHING,
    drafts: [],
    calls: [],
    planDraft: null,
    items: without(round.items, (item) => item.is === "draft" || item.is === "call"),
  });
}

/** Settle the open round by its decision. Drafts of this decision stay, since no event has their text. */
export function decide(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const opened = withOpenRound(turn, timeOf(event.ts), numberOf(data, "iteration"));
  const settled = changeLast(opened, (round) => decided(round, event));
  const round = settled.rounds.at(-1) as Round;
  const ending = settled.ending && round.roundsLeft !== null ? round.roundsLeft : settled.ending;
  // After a steer, fewer rounds are left than the turn may have.
  const steered = settled.ending !== null || round.interrupted;
  const roundsMax = steered || round.roundsLeft === null ? settled.roundsMax : round.iteration + 1 + round.roundsLeft;
  const next = {
    ...settled,
    ending,
    roundsMax,
    answers: answersAfter(settled.answers, round, textOf(data, "answer")),
    messages: readUpTo(settled, round),
  };
  return flagOf(data, "accepted") || round.interrupted ? next : withOpenRound(next, timeOf(event.ts));
}

function decided(open: Round, event: ClientEvent): Round {
  const { data } = event;
  const at = timeOf(event.ts);
  const claim = numberOf(data, "claim");
  const interrupted = flagOf(data, "interrupted");
  const accepted = flagOf(data, "accepted");
  const keeps = open.claim === claim && (accepted || interrupted);
  const round = keeps ? open : withoutStream(open);
  const tools = rowsOf(data, "tools").map((tool) => emptyCall(textOf(tool, "call_id"), textOf(tool, "tool_id")));
  const calls = accepted ? advance(tools, at) : [];
  return {
    ...round,
    iteration: numberOf(data, "iteration"),
    claim,
    state: calls.length > 0 ? "acting" : "done",
    refused: !accepted && !interrupted && !flagOf(data, "declined"),
    interrupted,
    declined: flagOf(data, "declined"),
    action: textOf(data, "action"),
    thinking: whole(
      rowsOf(data, "thinking")
        .map((one) => textOf(one, "text"))
        .join("\n\n"),
    ),
    notes: whole(textOf(data, "notes")),
    calls,
    items: [...without(round.items, (item) => item.is === "call"), ...calls.map(asItem)],
    planDraft: calls.length > 0 ? round.planDraft : null,
    startedAt: timeOrNull(textOf(data, "started_at")) ?? open.startedAt,
    decidedAt: at,
    endedAt: calls.length > 0 ? null : at,
    model: textOf(data, "model"),
    usage: "usage" in data ? usageOf(objectOf(data, "usage")) : null,
    roundsLeft: numberOrNull(data, "rounds_left"),
    rendered: numberOf(data, "rendered"),
  };
}

export function asItem(call: { readonly callId: string }): RoundItem {
  return { is: "call", callId: call.callId };
}

export function whole(text: string): Growing {
  return { text, whole: true, aborted: "" };
}

export function usageOf(data: Data): Usage | null {
  if (numberOrNull(data, "input_tokens") === null) return null;
  return {
    inputTokens: numberOf(data, "input_tokens"),
    cacheReadTokens: numberOf(data, "cache_read_tokens"),
    cacheWrite5mTokens: numberOf(data, "cache_write_5m_tokens"),
    cacheWrite1hTokens: numberOf(data, "cache_write_1h_tokens"),
    outputTokens: numberOf(data, "output_tokens"),
    estimated: flagOf(data, "estimated"),
  };
}

/**
 * The streamed part of an answer stays until the answer is recorded. For an interrupted answer, the event has the part
 * that was shown.
 */
function answersAfter(answers: readonly Answer[], round: Round, shown: string): readonly Answer[] {
  const streamed = (answer: Answer) => answer.state === "streaming" && answer.claim === round.claim;
  if (!round.interrupted) {
    const stays = round.action !== "call_tool" && !round.refused && !round.declined;
    return stays ? answers : without(answers, streamed);
  }
  const others = without(answers, streamed);
  if (!shown) return others;
  return [...others, { text: shown, state: "cut", iteration: round.iteration, claim: 0, lane: "" }];
}

/** Return the messages, with those that this round's request contained marked as read. */
function readUpTo(turn: Turn, round: Round): Turn["messages"] {
  const reads = (message: Turn["messages"][number]) =>
    message.state.is === "waiting" && message.kind !== "steer" && message.n <= round.rendered;
  if (!turn.messages.some(reads)) return turn.messages;
  return turn.messages.map((message) =>
    reads(message) ? { ...message, state: { is: "read", iteration: round.iteration } } : message,
  );
}
