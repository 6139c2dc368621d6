/**
 * The client's state of one conversation. States are pure values: a fold returns new objects where something changed,
 * and shares the rest.
 */

import { type Control, NO_CONTROL } from "./control.ts";
import type { Said } from "./frames.ts";
import { type Request, renderRequest } from "./outgoing.ts";

/** One lane of the running stream, from character `base` on. Offsets are code points, not UTF-16 units. */
export interface LaneText {
  /** The offset of the first known character. The text before it is in another state, or is stored nowhere. */
  readonly base: number;
  readonly text: string;
  /** The offset after the last known character: `base` plus the number of characters in `text`. */
  readonly end: number;
  /** Pieces that arrived before the ones they continue. */
  readonly early: readonly (readonly [off: number, text: string])[];
}

export const NO_TEXT: LaneText = { base: 0, text: "", end: 0, early: [] };

export interface ClientState {
  readonly conversation: string;
  /** The newest batch applied. */
  readonly cursor: number;
  /** The newest batch that the client knows of. */
  readonly newest: number;
  /** The cursor before the first batch that was applied, -1 if none was. */
  readonly began: number;
  /** The running stream, 0 if none is known. */
  readonly claim: number;
  /** The newest stream that no longer grows. */
  readonly settled: number;
  readonly lanes: ReadonlyMap<string, LaneText>;
  /** The facts about the running stream's lanes. */
  readonly control: Control;
  /** The pieces of a batch that arrives in several frames, by batch and part. */
  readonly parts: ReadonlyMap<number, ReadonlyMap<number, string>>;
  /** Our unanswered messages, by id. */
  readonly unacked: ReadonlyMap<string, Said>;
  /** The texts of all messages queued during the open turn, by id. */
  readonly queued: ReadonlyMap<string, string>;
  readonly open: boolean;
  readonly turnId: string;
  /** The call for which the turn waits for approval, or "". */
  readonly approval: string;
  /** The turn's position in the queue, 1 if it is the next; 0 if it is not queued. */
  readonly place: number;
  /** The newest ended turn that this client knows of. */
  readonly ended: string;
  /** The conversation is deleted, and no more events follow. */
  readonly deleted: boolean;
}

/** Return the state of a client that has every event up to batch `cursor`, and no other information. */
export function emptyState(conversation: string, cursor = 0): ClientState {
  return {
    conversation,
    cursor,
    newest: 0,
    began: -1,
    claim: 0,
    settled: 0,
    lanes: new Map(),
    control: NO_CONTROL,
    parts: new Map(),
    unacked: new Map(),
    queued: new Map(),
    open: false,
    turnId: "",
    approval: "",
    place: 0,
    ended: "",
    deleted: false,
  };
}

/** Return the known text of one lane of the running stream. */
export function laneText(state: ClientState, lane: string): string {
  return state.lanes.get(lane)?.text ?? "";
}

/** Return true if the current stream may still grow. */
export function isStreaming(state: ClientState): boolean {
  return state.claim > state.settled;
}

/** Return true if something is missing: a batch, or a piece of text before one that has arrived. */
export function isBehind(state: ClientState): boolean {
  if (state.deleted) return false;
  return state.newest > state.cursor || [...state.lanes.values()].some((lane) => lane.early.length > 0);
}

/** Return the request for the message stored under `messageId`. */
export function sendRequest(state: ClientState, messageId: string): Request {
  const said = state.unacked.get(messageId);
  if (!said) throw new RangeError(`no message ${messageId} waits for an answer`);
  return renderRequest(state.conversation, messageId, said);
}

/** Add a message to the unanswered ones. */
export function noteMessage(state: ClientState, messageId: string, said: Said): ClientState {
  return { ...state, unacked: withEntry(state.unacked, messageId, said) };
}

/** Remove a message from the unanswered ones. */
export function forgetMessage(state: ClientState, messageId: string): ClientState {
  return state.unacked.has(messageId) ? { ...state, unacked: without(state.unacked, messageId) } : state;
}

/** Return a copy of `known` with `name` set. */
export function withEntry<K, T>(known: ReadonlyMap<K, T>, name: K, value: T): ReadonlyMap<K, T> {
  return new Map(known).set(name, value);
}

/** Return a copy of `known` without `name`. */
export function without<K, T>(known: ReadonlyMap<K, T>, name: K): ReadonlyMap<K, T> {
  const left = new Map(known);
  left.delete(name);
  return left;
}
