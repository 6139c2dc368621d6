/** The rounds of a conversation as one list: the selected one and its neighbors. Pure. */

import type { Rounds, RoundView, TurnRounds } from "../api/index.ts";

/** A round, with its turn's position in the conversation. */
export interface Placed {
  readonly turn: TurnRounds;
  /** From 1. */
  readonly turnNumber: number;
  readonly round: RoundView;
}

/** The running round. It joins the list once it is decided. */
export interface Live {
  readonly turnId: string;
  readonly iteration: number;
  /** Its activity, in words. */
  readonly doing: string;
}

/** A round as identified by an address. */
interface Named {
  readonly turn: Pick<TurnRounds, "turn_id">;
  readonly round: Pick<RoundView, "iteration">;
}

/** Return the name of the running round. */
export function namedLive({ turnId, iteration }: Live): Named {
  return { turn: { turn_id: turnId }, round: { iteration } };
}

/** Return every decision of a conversation in order. A round that was refused or restarted has several. */
export function placeRounds(rounds: Rounds): readonly Placed[] {
  return rounds.turns.flatMap((turn, at) => turn.rounds.map((round) => ({ turn, turnNumber: at + 1, round })));
}

/** Return the index of a round's newest decision, -1 if it has none. */
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

/** Return the name of a round for the address parameter `to`: `<turn>.<round>`, from 1. */
export function nameRound(placed: Placed): string {
  return `${placed.turn.turn_id}.${placed.round.iteration + 1}`;
}

/** Return the index of the round that an address names, -1 if there is none. */
export function indexOfName(all: readonly Placed[], name: string): number {
  const at = name.lastIndexOf(".");
  return at < 0 ? -1 : indexOfRound(all, name.slice(0, at), Number(name.slice(at + 1)) - 1);
}
