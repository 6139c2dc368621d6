/** Sums of tokens by cache class, and their weights. Pure. */

import type { Receipts, Tokens, TurnReceipt } from "../api/index.ts";

/** The cost of a token relative to one of plain input, as in `accounting.usage`. */
const WEIGHTS = { read: 0.1, write5m: 1.25, write1h: 2, plain: 1, output: 5 };

/** The tokens of one or several model calls. */
export interface Figures {
  readonly read: number;
  readonly written: number;
  readonly plain: number;
  readonly output: number;
  /** All tokens that were read, cached or not. */
  readonly input: number;
  readonly weighted: number;
  readonly estimated: boolean;
}

export const NONE: Figures = { read: 0, written: 0, plain: 0, output: 0, input: 0, weighted: 0, estimated: false };

/** Return the figures of a usage. */
export function figuresOf(tokens: Tokens): Figures {
  const { input_tokens: plain, cache_read_tokens: read, output_tokens: output } = tokens;
  const written = tokens.cache_write_5m_tokens + tokens.cache_write_1h_tokens;
  const weighted =
    plain * WEIGHTS.plain +
    read * WEIGHTS.read +
    tokens.cache_write_5m_tokens * WEIGHTS.write5m +
    tokens.cache_write_1h_tokens * WEIGHTS.write1h +
    output * WEIGHTS.output;
  return { read, written, plain, output, input: plain + read + written, weighted, estimated: tokens.estimated };
}

/** Return the sum of several figures. */
export function sumFigures(all: readonly Figures[]): Figures {
  return all.reduce(
    (sum, one) => ({
      read: sum.read + one.read,
      written: sum.written + one.written,
      plain: sum.plain + one.plain,
      output: sum.output + one.output,
      input: sum.input + one.input,
      weighted: sum.weighted + one.weighted,
      estimated: sum.estimated || one.estimated,
    }),
    NONE,
  );
}

/** Return the share of the input that was read from a cache, from 0 to 1. */
export function readShare(figures: Figures): number {
  return figures.input === 0 ? 0 : figures.read / figures.input;
}

/** The cost of one call, or of the calls of one turn. */
export interface Cost {
  readonly key: string;
  /** From 1. */
  readonly turn: number;
  readonly turnId: string;
  /** From 0; null for a call outside the rounds, and for a whole turn. */
  readonly iteration: number | null;
  /** `round`, or another purpose of the call: `title`, `summary`, `hook`, `tool`, `failed`. */
  readonly kind: string;
  readonly figures: Figures;
  /** In dollars, null if no price is known. */
  readonly usd: number | null;
}

export interface TurnCost {
  readonly whole: Cost;
  readonly calls: readonly Cost[];
  readonly priced: boolean;
}

/** Return the costs of a conversation, by turn and call. */
export function costsOf(receipts: Receipts): readonly TurnCost[] {
  // A server of an older release does not send it.
  const before = receipts.turns_before ?? 0;
  return receipts.turns.map((turn, at) => turnCost(turn, before + at + 1));
}

/** The cost of a replayed round, which belongs to no turn. */
export interface ReplayCost {
  readonly key: string;
  readonly model: string;
  readonly figures: Figures;
  /** In dollars, null if no price is known. */
  readonly usd: number | null;
}

/** Return the costs of replayed rounds, oldest first. */
export function replayCosts(receipts: Receipts): readonly ReplayCost[] {
  // A server of an older release does not send them.
  return (receipts.replays ?? []).map(({ at, model, tokens, usd }, n) => ({
    key: `${at}.${n}`,
    model,
    figures: figuresOf(tokens),
    usd,
  }));
}

function turnCost(receipt: TurnReceipt, turn: number): TurnCost {
  const own = { turn, turnId: receipt.turn_id };
  const rounds = receipt.rounds.map((round) => ({
    ...own,
    key: `${turn}.${round.iteration}.${round.decided_n}`,
    iteration: round.iteration,
    kind: "round",
    figures: figuresOf(round.tokens),
    usd: round.usd,
  }));
  const others = receipt.other.map((other, at) => ({
    ...own,
    key: `${turn}+${at}`,
    iteration: null,
    kind: other.kind,
    figures: figuresOf(other.tokens),
    // A server of an older release does not send them.
    usd: other.usd ?? null,
  }));
  const figures = figuresOf(receipt.tokens);
  const whole = { ...own, key: String(turn), iteration: null, kind: "turn", figures, usd: receipt.usd };
  return { whole, calls: [...rounds, ...others], priced: receipt.priced };
}
