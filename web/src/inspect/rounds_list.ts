/** The rounds of a conversation in one row: which one is meant, and which ones stand beside it. Pure. */

import type { Rounds, RoundView, TurnRounds } from "../api/index.ts";

/** A round, with its turn's place in the conversation. */
export interface Placed {
  readonly turn: TurnRounds;
  /** From 1. */
  readonly turnNumber: number;
  readonly round: RoundView;
}

/** The round that runs now. It is in the row once it is decided. */
export interface Live {
  readonly turnId: string;
  readonly iteration: number;
  /** What it does, in words. */
  readonly doing: string;
}

/** A round as its address names it. */
interface Named {
  readonly turn: Pick<TurnRounds, "turn_id">;
  readonly round: Pick<RoundView, "iteration">;
}

/** Return the name of the round that runs. */
export function namedLive({ turnId, iteration }: Live): Named {
  return { turn: { turn_id: turnId }, round: { iteration } };
}

/** Return every decision of a conversation in order. A round that was refused or began again is decided several times. */
export function placeRounds(rounds: Rounds): readonly Placed[] {
  return rounds.turns.flatMap((turn, at) => turn.rounds.map((round) => ({ turn, turnNumber: at + 1, round })));
}

/** Return where the newest decision of a round stands in the row, -1 if it has none. */
export function indexOfRound(all: readonly Placed[], turnId: string, iteration: number): number {
  return all.findLastIndex((one) => one.turn.turn_id === turnId && one.round.iteration === iteration);
}

/** Return the address of a round in the inspector. */
export function addressOf(conversation: string, placed: Named, view: string, to: string = ""): string {
  const asked = new URLSearchParams();
  if (view !== "request") asked.set("view", view);
  if (to) asked.set("to", to);
  const query = asked.size ? `?${asked}` : "";
  return `/c/${conversation}/timeline/${placed.turn.turn_id}/${placed.round.iteration + 1}${query}`;
}

/** Return the name of a round in an address's `to`: `<turn>.<round>`, from 1. */
export function nameRound(placed: Placed): string {
  return `${placed.turn.turn_id}.${placed.round.iteration + 1}`;
}

/** Return where the round that an address names stands in the row, -1 if there is none. */
export function indexOfName(all: readonly Placed[], name: string): number {
  const at = name.lastIndexOf(".");
  return at < 0 ? -1 : indexOfRound(all, name.slice(0, at), Number(name.slice(at + 1)) - 1);
}
