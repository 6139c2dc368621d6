/** The state that a client of AG-UI has: the newest turn, its plan, and the calls that wait for a person. */

import { type Event, EventType } from "@ag-ui/client";
import type { Change } from "../../src/door/turn_parts.ts";

/** The type of the activity that is a plan. */
export const PLAN = "PLAN";

export interface TurnState {
  /** `waiting`: a call needs an approval. Null before the first turn. */
  readonly turn: { readonly id: string; readonly status: TurnStatus } | null;
  /** The newest plan of the turn, as `react.plan` has it. */
  readonly plan: Readonly<Record<string, unknown>> | null;
  /** The requests without an answer, as `approval.requested` has them. */
  readonly approvals: readonly Readonly<Record<string, unknown>>[];
}

export type TurnStatus = "open" | "waiting" | "complete" | "stopped" | "failed";

export const NO_TURN: TurnState = { turn: null, plan: null, approvals: [] };

/** Return the state of a turn that waits for a person: the client's, if it is of this turn. */
export function waitingState(turn: string, known: unknown): TurnState {
  const state = known as Partial<TurnState> | undefined;
  if (state?.turn?.id === turn && Array.isArray(state.approvals)) return { ...NO_TURN, ...state };
  return { ...NO_TURN, turn: { id: turn, status: "waiting" } };
}

/** Return the state after a change: the same object if the change does not concern it. */
export function nextState(state: TurnState, change: Change): TurnState {
  const id = state.turn?.id ?? "";
  switch (change.do) {
    case "begin":
      return { ...NO_TURN, turn: { id: change.event.turn_id, status: "open" } };
    case "end": {
      const { type, data } = change.event;
      const status = type === "chat.error" ? "failed" : data.reason === "stop" ? "stopped" : "complete";
      return { ...state, turn: { id, status }, approvals: [] };
    }
    case "place": {
      const { type, data } = change.part.event;
      if (type === "react.plan") return { ...state, plan: data };
      if (type === "approval.requested") return { ...state, turn: { id, status: "waiting" }, approvals: [data] };
      if (type === "approval.answered") return { ...state, turn: { id, status: "open" }, approvals: [] };
      return state;
    }
    default:
      return state;
  }
}

/** Return the state of a turn that its client stops. */
export function stoppedState(state: TurnState): TurnState {
  return { ...state, turn: state.turn && { ...state.turn, status: "stopped" }, approvals: [] };
}

export function stateSnapshot(snapshot: TurnState): Event {
  return { type: EventType.STATE_SNAPSHOT, snapshot };
}
