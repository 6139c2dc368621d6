/** A turn from its first event to its last: opened, interrupted, deferred, closed, rated. */

import type { ClientEvent } from "../client/index.ts";
import { hasEnded } from "./calls.ts";
import { type Data, flagOf, numberOf, numberOrNull, numbersOf, rowsOf, textOf, textsOf, timeOf } from "./fields.ts";
import { brokenOff } from "./programs.ts";
import { changeLast, openRound, usageOf, withItem, withOpenRound, withoutEmptyRound, withoutStream } from "./rounds.ts";
import { changed, changedLast, without } from "./share.ts";
import { citedSource } from "./sources.ts";
import type { Answer, Call, Compaction, CostLine, Message, Outcome, Receipt, Round, TimePart, Turn } from "./thread.ts";

export function emptyTurn(turnId: string, startedAt: number): Turn {
  return {
    turnId,
    openedN: 0,
    closedN: 0,
    prompts: [],
    promptNs: [],
    messages: [],
    rounds: [],
    compactions: [],
    answers: [],
    citations: [],
    unresolvedSids: [],
    files: [],
    followups: [],
    outcome: { is: "running" },
    startedAt,
    endedAt: null,
    roundsMax: 0,
    maxTokens: 0,
    receipt: null,
    feedback: [],
    ending: null,
    approval: "",
    place: 0,
  };
}

export function openedTurn(n: number, event: ClientEvent, prompts: readonly Message[]): Turn {
  const { data } = event;
  const at = timeOf(event.ts);
  const turn: Turn = {
    ...emptyTurn(textOf(data, "turn_id"), at),
    openedN: n,
    prompts,
    promptNs: numbersOf(data, "prompts"),
    roundsMax: numberOf(data, "rounds"),
    maxTokens: numberOf(data, "max_tokens"),
  };
  return withOpenRound(turn, at, 0);
}

/** Let another attempt take over a round: text that streamed under an older claim is void. */
export function restarted(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const at = timeOf(event.ts);
  const claim = numberOf(data, "claim");
  const stale = without(turn.answers, (one) => one.state === "streaming" && one.claim < claim);
  const open = openRound(turn) ? turn : openUnlessActing(turn, at, numberOf(data, "iteration"));
  const item = { is: "restarted", attempt: numberOf(data, "attempt"), at } as const;
  const next = changeLast(open, (round) => {
    const kept = round.decidedAt === null ? { ...withoutStream(round), claim } : round;
    return withItem(kept, item);
  });
  return changed(next, { answers: stale });
}

/** Return the turn with an open round, unless calls of the current one still run. */
function openUnlessActing(turn: Turn, at: number, iteration: number): Turn {
  return turn.rounds.at(-1)?.state === "acting" ? turn : withOpenRound(turn, at, iteration);
}

/** Mark the turn as queued. */
export function queuedTurn(turn: Turn, event: ClientEvent): Turn {
  return { ...turn, place: numberOf(event.data, "place") };
}

/** End the wait of a queued turn: its round begins now if it has not begun. */
export function begun(turn: Turn, event: ClientEvent): Turn {
  const waits = openRound(turn)?.state === "thinking";
  const next = waits ? changeLast(turn, (round) => ({ ...round, startedAt: timeOf(event.ts) })) : turn;
  return { ...next, place: 0 };
}

/** Let a round wait for the provider, which replaces the round's restart of the same time. */
export function waiting(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const at = timeOf(event.ts);
  const open = withOpenRound(turn, at, numberOf(data, "iteration"));
  return changeLast(open, (round) =>
    withItem(changed(round, { items: without(round.items, (item) => item.is === "restarted" && item.at === at) }), {
      is: "waiting",
      code: textOf(data, "code"),
      until: timeOf(textOf(data, "until")),
      attempt: numberOf(data, "attempt"),
      attempts: numberOf(data, "attempts"),
    }),
  );
}

/** Record the start or the end of a compaction, in the round that waits for it. */
export function compacted(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const compactionId = textOf(data, "compaction_id");
  const compaction: Compaction = {
    compactionId,
    title: textOf(data, "title"),
    kind: textOf(data, "kind"),
    beforeTokens: numberOf(data, "before_tokens"),
    afterTokens: numberOrNull(data, "after_tokens"),
    maxTokens: numberOf(data, "max_tokens"),
    coveredTurns: numberOf(data, "covered_turns"),
    reason: textOf(data, "reason"),
    ended: event.status !== "started",
  };
  const is = (one: Compaction) => one.compactionId === compactionId;
  if (turn.compactions.some(is)) return { ...turn, compactions: changedLast(turn.compactions, is, () => compaction) };
  const open = openUnlessActing(turn, timeOf(event.ts), (turn.rounds.at(-1)?.iteration ?? -1) + 1);
  const next = changeLast(open, (round) => withItem(round, { is: "compaction", compactionId }));
  return { ...next, compactions: [...turn.compactions, compaction] };
}

/** Defer an answer: another round follows. */
export function deferred(turn: Turn, event: ClientEvent): Turn {
  const iteration = numberOf(event.data, "iteration");
  const answer: Answer = { text: textOf(event.data, "answer"), state: "deferred", iteration, claim: 0, lane: "" };
  const others = without(turn.answers, (one) => one.state === "streaming" && one.iteration === iteration);
  return withOpenRound({ ...turn, answers: [...others, answer] }, timeOf(event.ts));
}

/** Let a steer interrupt the turn, with some finalizing rounds or none. */
export function interrupted(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const finalizeRounds = numberOf(data, "finalize_rounds");
  const phase = textOf(data, "cancelled_phase");
  const heeded = {
    is: "heeded",
    phase: phase === "decision" || phase === "tools" ? phase : "",
    finalizeRounds,
  } as const;
  const isIt = (one: Message) => one.messageId === textOf(data, "message_id");
  const messages = changedLast(turn.messages, isIt, (one) => ({ ...one, state: heeded }));
  const next = changed(turn, { messages, ending: finalizeRounds });
  return finalizeRounds > 0 ? withOpenRound(next, timeOf(event.ts)) : withoutEmptyRound(next);
}

export function cited(turn: Turn, event: ClientEvent): Turn {
  return { ...turn, citations: rowsOf(event.data, "items").map(citedSource) };
}

export function suggested(turn: Turn, event: ClientEvent): Turn {
  return { ...turn, followups: textsOf(event.data, "items") };
}

export const NO_RECEIPT: Receipt = {
  elapsedMs: 0,
  parts: [],
  rounds: 0,
  usage: null,
  totalInputTokens: 0,
  weightedTokens: 0,
  model: "",
  usd: 0,
  priced: false,
  lines: [],
};

function onReceipt(fields: (data: Data) => Partial<Receipt>) {
  return (turn: Turn, event: ClientEvent): Turn => ({
    ...turn,
    receipt: { ...(turn.receipt ?? NO_RECEIPT), ...fields(event.data) },
  });
}

export const timed = onReceipt((data) => ({ elapsedMs: numberOf(data, "elapsed_ms") }));

export const summed = onReceipt((data) => ({
  rounds: numberOf(data, "rounds"),
  elapsedMs: numberOf(data, "elapsed_ms"),
  parts: partsOf(data),
}));

const PARTS = ["model", "tools", "starting", "collecting", "preparing", "waiting"] as const;

/** Return the parts that took any time. Time that belongs to none of them counts as `between`, also in older turns. */
function partsOf(data: Data): readonly TimePart[] {
  const parts = PARTS.map((is): TimePart => ({ is, ms: numberOf(data, `${is}_ms`) }));
  const between = numberOf(data, "elapsed_ms") - parts.reduce((sum, { ms }) => sum + ms, 0);
  return [...parts, { is: "between" as const, ms: between }].filter(({ ms }) => ms > 0);
}

export const accounted = onReceipt((data) => ({
  usage: usageOf(data),
  totalInputTokens: numberOf(data, "total_input_tokens"),
  weightedTokens: numberOf(data, "weighted_tokens"),
  model: textOf(data, "model"),
  usd: numberOf(data, "usd"),
  priced: flagOf(data, "priced"),
  lines: rowsOf(data, "lines").map(costLineOf),
}));

export function costLineOf(row: Data): CostLine {
  return {
    role: textOf(row, "role"),
    model: textOf(row, "model"),
    calls: numberOf(row, "calls"),
    usage: usageOf(row),
    usd: numberOf(row, "usd"),
    priced: flagOf(row, "priced"),
  };
}

/** Reasons for an end at which the answer is an interrupted one: the part that was shown. */
const CUT: ReadonlySet<string> = new Set(["stop", "token_limit"]);

export function completed(turn: Turn, event: ClientEvent, n: number): Turn {
  const { data } = event;
  const reason = textOf(data, "reason");
  const text = textOf(data, "answer");
  const { value } = data;
  const message = textOf(data, "message");
  const over = ended(turn, event, n, { is: "completed", reason, message, ...(value !== undefined && { value }) });
  const iteration = over.rounds.at(-1)?.iteration ?? 0;
  const cut = CUT.has(reason);
  // The shown part of the last answer is the turn's answer now, also if another process began a round after it.
  const last = over.answers.at(-1);
  const isLast = (one: Answer) => one.iteration === iteration || (one === last && one.text === text);
  const again = (one: Answer) => one.state === "cut" && cut && isLast(one);
  const others = without(over.answers, (one) => one.state === "streaming" || again(one));
  const answer: Answer = { text, state: cut ? "cut" : "recorded", iteration, claim: 0, lane: "" };
  const shown = over.answers.find((one) => again(one) && one.text === text);
  return {
    ...over,
    answers: text ? [...others, shown ?? answer] : others,
    unresolvedSids: numbersOf(data, "unresolved_sids"),
  };
}

export function failed(turn: Turn, event: ClientEvent, n: number): Turn {
  const { data } = event;
  const over = ended(turn, event, n, {
    is: "error",
    code: textOf(data, "code"),
    message: textOf(data, "error"),
    retryable: flagOf(data, "retryable"),
    retryAfterS: numberOf(data, "retry_after_s"),
  });
  const answers = over.answers.map((one): Answer => (one.state === "streaming" ? { ...one, state: "cut" } : one));
  return { ...over, answers };
}

function ended(turn: Turn, event: ClientEvent, n: number, outcome: Outcome): Turn {
  const at = timeOf(event.ts);
  const kept = outcome.is === "error" ? turn : withoutEmptyRound(turn);
  const rounds = kept.rounds.some((round) => round.state !== "done")
    ? kept.rounds.map((round) => (round.state === "done" ? round : cutOff(round, at)))
    : kept.rounds;
  return { ...kept, rounds, outcome, closedN: n, endedAt: at, approval: "", place: 0 };
}

/** End a round midway: its text stays unchanged, and its running actions may have happened. */
function cutOff(round: Round, at: number): Round {
  return {
    ...round,
    state: "done",
    interrupted: round.interrupted || round.decidedAt === null,
    thinking: { ...round.thinking, whole: true },
    notes: { ...round.notes, whole: true },
    drafts: round.drafts.map((draft) => ({ ...draft, text: { ...draft.text, whole: true } })),
    calls: round.calls.map((call) => (hasEnded(call) ? call : leftOff(call))),
    planDraft: null,
    endedAt: at,
  };
}

function leftOff(call: Call): Call {
  return {
    ...call,
    state: call.state === "running" ? "unverified" : "skipped",
    program: call.program && brokenOff(call.program),
  };
}

/** Keep the newest feedback of each origin. */
export function rated(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const origin = textOf(data, "origin");
  const others = turn.feedback.filter((one) => one.origin !== origin);
  if (flagOf(data, "withdrawn")) return { ...turn, feedback: others };
  const reaction = textOf(data, "reaction");
  const known = reaction === "ok" || reaction === "not_ok" || reaction === "neutral" ? reaction : "";
  return { ...turn, feedback: [...others, { origin, reaction: known, text: textOf(data, "text") }] };
}
