/** The state of a response while its events are made. */

import type { EventPart, Part } from "../../../src/door/turn_parts.ts";
import { type Annotation, callId, type Item, textItem } from "./items.ts";
import { type Outcome, type Resource, type ResponseFacts, resourceOf } from "./resource.ts";

export type ResponseEvent = Readonly<Record<string, unknown>> & {
  readonly type: string;
  readonly sequence_number: number;
};

/** An item with the part that it shows. */
export interface Entry {
  readonly part: Part;
  readonly index: number;
  readonly item: Item;
  readonly isDone: boolean;
  readonly annotations: readonly Annotation[];
}

export interface ResponseState {
  readonly facts: ResponseFacts;
  readonly sequence: number;
  /** The batch at which the sequence number began anew. */
  readonly n: number;
  /** The items before the current step, and those of the step. */
  readonly before: readonly Entry[];
  readonly step: readonly Entry[];
  /** The events of the step that have been placed. */
  readonly placed: readonly EventPart[];
  /** How many items there were, and the ids of those that were replaced. */
  readonly items: number;
  readonly replaced: readonly string[];
  readonly usage: EventPart["event"]["data"] | null;
  readonly outcome: Outcome;
}

/** The distance between the sequence numbers of two batches. */
const BATCH = 1_000_000;

export function stateOf(facts: ResponseFacts): ResponseState {
  const none = { before: [], step: [], placed: [], replaced: [], usage: null };
  return { facts, sequence: -1, n: 0, items: 0, outcome: { status: "queued" }, ...none };
}

/** Return the response so far. */
export function currentResponse({ facts, before, step, outcome, usage }: ResponseState): Resource {
  return resourceOf(facts, outcome, [...before, ...step].map(currentItem), usage);
}

/** Return true if the response has ended: a turn that waits for a person continues in another one. */
export function isOver({ outcome }: ResponseState): boolean {
  return outcome.status !== "queued" && outcome.status !== "in_progress";
}

/** Return the item of the current step that shows a text. */
export function textEntry({ step }: ResponseState, id: string): Entry | undefined {
  return step.find(({ part }) => part.is !== "event" && part.id === id);
}

export function openCall({ before, step }: ResponseState, call: unknown): Entry | undefined {
  return [...before, ...step].find(({ item, isDone }) => !isDone && item.id === callId(call));
}

/** Return an event, or the rest of a delta, after a sequence number. */
export function restOf(event: ResponseEvent, after: number): ResponseEvent | null {
  const { sequence_number: last, delta } = event;
  if (last <= after) return null;
  if (typeof delta !== "string" || last - delta.length >= after) return event;
  return { ...event, delta: delta.slice(after - last) };
}

function currentItem({ part, item, isDone, annotations }: Entry): Item {
  return part.is === "event" || isDone ? item : textItem(item.id, part, item.status, annotations);
}

/** A state that is being changed, and the events that do it. */
export class Draft {
  state: ResponseState;
  readonly events: ResponseEvent[] = [];

  constructor(state: ResponseState) {
    this.state = state;
  }

  update(fields: Partial<ResponseState>): void {
    this.state = { ...this.state, ...fields };
  }

  /** What follows belongs to batch `n`. */
  reach(n: number): void {
    if (n > this.state.n) this.update({ n, sequence: Math.max(this.state.sequence, n * BATCH - 1) });
  }

  send(type: string, fields: Readonly<Record<string, unknown>>, length = 1): void {
    this.update({ sequence: this.state.sequence + length });
    this.events.push({ type, sequence_number: this.state.sequence, ...fields });
  }

  sendResponse(type: string): void {
    this.send(type, { response: currentResponse(this.state) });
  }

  add(part: Part, item: Item): Entry {
    const entry: Entry = { part, index: this.state.items, item, isDone: false, annotations: [] };
    this.update({ step: [...this.state.step, entry], items: this.state.items + 1 });
    this.send("response.output_item.added", { output_index: entry.index, item });
    return entry;
  }

  change(entry: Entry, fields: Partial<Entry>): Entry {
    const changed = { ...entry, ...fields };
    const put = (all: readonly Entry[]) => all.map((one) => (one.index === entry.index ? changed : one));
    this.update({ step: put(this.state.step) });
    if (entry.part.is === "event") this.update({ before: put(this.state.before) });
    return changed;
  }

  /** End an item in its last form. */
  finish(entry: Entry, item: Item): void {
    this.send("response.output_item.done", { output_index: entry.index, item });
    this.change(entry, { item, isDone: true });
  }

  /** Send an item that is complete when it begins. */
  place(part: Part, item: Item): void {
    this.finish(this.add(part, { ...item, status: "in_progress" }), item);
  }

  /** End the response. The protocol has no event for one that is cancelled. */
  end(outcome: Outcome): void {
    this.update({ outcome });
    this.sendResponse(`response.${outcome.status === "cancelled" ? "incomplete" : outcome.status}`);
  }
}
