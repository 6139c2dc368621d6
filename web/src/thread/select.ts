/**
 * Selectors: the state of a thread that the title bar, the margin, the receipts and the traces show. Pure; the same
 * state gives the same object.
 */

import type { Call, Draft, Growing, Plan, Round, Source, Thread, Turn, Usage } from "./thread.ts";

// --- the title bar

/** The current activity. Rounds count from 1 here, as people see them. */
export type Readout =
  | { readonly is: "idle" }
  | { readonly is: "thinking" | "deciding" | "program" | "compacting" | "closing"; readonly round: number }
  | { readonly is: "writing"; readonly round: number; readonly name: string }
  | { readonly is: "calling" | "approval"; readonly round: number; readonly toolId: string }
  | {
      readonly is: "provider";
      readonly round: number;
      readonly until: number;
      readonly attempt: number;
      readonly attempts: number;
    }
  | { readonly is: "ending"; readonly left: number }
  | { readonly is: "inLine"; readonly place: number }
  | { readonly is: "stopping" };

/** Return the running turn, or undefined. */
export function openTurn(thread: Thread): Turn | undefined {
  const last = thread.turns.at(-1);
  return last?.outcome.is === "running" ? last : undefined;
}

/** Return the number of a turn in its conversation, from 1. Of a cut turn, the beginning is on an earlier page. */
export function turnNumber(thread: Thread, at: number): number {
  return thread.turnsBefore + at + (thread.turns[0]?.openedN === 0 && thread.turnsBefore > 0 ? 0 : 1);
}

/** Return the number of turns in the conversation, including those on earlier pages. */
export function countTurns(thread: Thread): number {
  return turnNumber(thread, thread.turns.length - 1);
}

/** Return the logical path of a canvas file, or "" while its name is unknown. */
export function draftPath(turnId: string, draft: Draft): string {
  return draft.canvas && draft.name ? `fi:${turnId}.${draft.name}` : "";
}

/** Return the text that is, or was, written to the file at a path; undefined if this page has not received it. */
export function draftAt(thread: Thread, path: string): Draft | undefined {
  const turn = thread.turns.findLast((one) => path.startsWith(`fi:${one.turnId}.`));
  return turn?.rounds.flatMap((round) => round.drafts).findLast((draft) => draftPath(turn.turnId, draft) === path);
}

/** Return true if the open turn waits for approval. */
export function waitsForApproval(thread: Thread): boolean {
  return Boolean(openTurn(thread)?.approval);
}

/** Return the readout of the title bar. A pending approval comes first, then a requested stop or steer. */
export function readoutOf(thread: Thread): Readout {
  const turn = openTurn(thread);
  return turn ? ofTurn(turn) : { is: "idle" };
}

const ofTurn = remembered((turn: Turn): Readout => {
  const round = turn.rounds.at(-1);
  const number = (round?.iteration ?? 0) + 1;
  if (turn.ending === 0) return { is: "stopping" };
  const asked = turn.approval ? findCall(turn, turn.approval) : undefined;
  if (asked) return { is: "approval", round: number, toolId: asked.toolId };
  if (turn.ending !== null) return { is: "ending", left: turn.ending };
  if (turn.place > 0) return { is: "inLine", place: turn.place };
  return round ? ofRound(turn, round, number) : { is: "thinking", round: number };
});

function ofRound(turn: Turn, round: Round, number: number): Readout {
  if (round.state === "done") return { is: "closing", round: number };
  if (round.state === "acting") {
    const call = round.calls.find((one) => one.state === "running");
    if (!call) return { is: "deciding", round: number };
    return call.program ? { is: "program", round: number } : { is: "calling", round: number, toolId: call.toolId };
  }
  const last = round.items.at(-1);
  if (last?.is === "waiting" && round.state === "thinking") {
    const { until, attempt, attempts } = last;
    return { is: "provider", round: number, until, attempt, attempts };
  }
  if (last?.is === "compaction" && !turn.compactions.find((one) => one.compactionId === last.compactionId)?.ended) {
    return { is: "compacting", round: number };
  }
  const written = round.drafts.findLast((draft) => !draft.text.whole);
  if (written) return { is: "writing", round: number, name: written.name };
  if (round.calls.some((call) => call.program)) return { is: "program", round: number };
  return { is: round.state === "deciding" ? "deciding" : "thinking", round: number };
}

function findCall(turn: Turn, callId: string): Call | undefined {
  for (const round of turn.rounds) {
    const call = round.calls.find((one) => one.callId === callId);
    if (call) return call;
  }
  return undefined;
}

// --- the margin

/** Return the plan to show: the current one, or else the one that changed last. */
export function currentPlan(thread: Thread): Plan | undefined {
  return thread.plans.findLast((plan) => plan.current) ?? thread.plans.at(-1);
}

/** Return the plan that is being written, or null. */
export function planDraft(thread: Thread): Growing | null {
  const turn = openTurn(thread);
  return turn?.rounds.findLast((round) => round.planDraft)?.planDraft ?? null;
}

/** Return the sources that a turn found or cites, by number. */
export function sourcesOf(thread: Thread, turn: Turn): readonly Source[] {
  const known = numbersOf(turn);
  return sourcesBy(thread.sources)(known);
}

const numbersOf = remembered((turn: Turn): readonly number[] => {
  const rows = turn.rounds.flatMap((round) =>
    round.calls.flatMap((call) => [...(call.search?.results ?? []), ...(call.fetched?.results ?? [])]),
  );
  const sids = [...rows, ...turn.citations].map((row) => row.sid).filter((sid) => sid > 0);
  return [...new Set(sids)].sort((a, b) => a - b);
});

const sourcesBy = remembered((sources: Thread["sources"]) =>
  remembered((sids: readonly number[]): readonly Source[] =>
    sids.flatMap((sid) => {
      const source = sources.get(sid);
      return source ? [source] : [];
    }),
  ),
);

// --- tokens

/** The tokens of a request, by cache class. */
export interface TokenStack {
  readonly read: number;
  readonly written: number;
  readonly plain: number;
  readonly output: number;
}

export const tokenStack = remembered(
  (usage: Usage): TokenStack => ({
    read: usage.cacheReadTokens,
    written: usage.cacheWrite5mTokens + usage.cacheWrite1hTokens,
    plain: usage.inputTokens,
    output: usage.outputTokens,
  }),
);

/** The context in use. After a compaction only its total is known, until the next request. */
export interface Context {
  readonly used: number;
  readonly max: number;
  readonly stack: TokenStack | null;
  readonly estimated: boolean;
}

/** Return the context of the newest request, or null if there was none. */
export function contextOf(thread: Thread): Context | null {
  const turn = thread.turns.findLast((one) => contextOfTurn(one) !== null);
  return turn ? contextOfTurn(turn) : null;
}

const contextOfTurn = remembered((turn: Turn): Context | null => {
  const round = turn.rounds.findLast((one) => one.usage || compactionOf(turn, one));
  if (!round || turn.maxTokens === 0) return null;
  if (round.usage) {
    const stack = tokenStack(round.usage);
    const used = stack.read + stack.written + stack.plain;
    return { used, max: turn.maxTokens, stack, estimated: round.usage.estimated };
  }
  return { used: compactionOf(turn, round) ?? 0, max: turn.maxTokens, stack: null, estimated: true };
});

/** Return the size of the request after the last compaction in a round. */
function compactionOf(turn: Turn, round: Round): number | null {
  const item = round.items.findLast((one) => one.is === "compaction");
  return turn.compactions.find((one) => one.compactionId === item?.compactionId)?.afterTokens ?? null;
}

// --- traces

/** An interval of a turn, in milliseconds since its start. `now`: it has not ended. */
export interface Segment {
  readonly is: "model" | "tool" | "now";
  readonly from: number;
  readonly to: number;
}

const SCALES_MS = [5_000, 15_000, 60_000, 300_000];

/** Return the duration that the width of a turn's traces represents. It grows in steps, so that it rarely changes. */
export function traceScale(turn: Pick<Turn, "startedAt" | "endedAt">, now: number): number {
  const elapsed = (turn.endedAt ?? now) - turn.startedAt;
  const step = SCALES_MS.find((scale) => elapsed <= scale);
  if (step) return step;
  let scale = SCALES_MS.at(-1) as number;
  while (scale < elapsed) scale *= 2;
  return scale;
}

/** A trace only needs the start of the turn, so a round is not rendered again when its turn is another object. */
type Begun = Pick<Turn, "startedAt">;

/** Return the timing of a round: the model, then its calls. */
export function traceOf(turn: Begun, round: Round, now: number): readonly Segment[] {
  if (round.endedAt === null) return segmentsOf(turn, round, now);
  const known = traces.get(round);
  if (known) return known;
  const segments = segmentsOf(turn, round, round.endedAt);
  traces.set(round, segments);
  return segments;
}

const traces = new WeakMap<Round, readonly Segment[]>();

function segmentsOf(turn: Begun, round: Round, now: number): readonly Segment[] {
  const since = (at: number) => Math.max(0, at - turn.startedAt);
  const decided = round.decidedAt ?? round.endedAt;
  const model: Segment = {
    is: decided === null ? "now" : "model",
    from: since(round.startedAt),
    to: since(decided ?? now),
  };
  const calls = round.calls.flatMap((call): Segment[] => {
    if (call.startedAt === null) return [];
    const runs = call.durationMs === null;
    if (runs && round.endedAt !== null) return [];
    const end = runs ? now : call.startedAt + (call.durationMs ?? 0);
    return [{ is: runs ? "now" : "tool", from: since(call.startedAt), to: since(end) }];
  });
  return [model, ...calls].map((one) => ({ ...one, to: Math.max(one.from, one.to) }));
}

/** Return the function memoized: a result is kept as long as its arguments are. */
function remembered<K extends object, T>(make: (key: K) => T): (key: K) => T {
  const results = new WeakMap<K, { readonly result: T }>();
  return (key) => {
    let kept = results.get(key);
    if (!kept) {
      kept = { result: make(key) };
      results.set(key, kept);
    }
    return kept.result;
  };
}
