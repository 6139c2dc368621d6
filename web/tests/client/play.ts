/**
 * Plays the vectors of tests/data/client: this client has to produce the same results as Python's from the same frames.
 */

import {
  type ClientState,
  type Effect,
  emptyState,
  foldFrame,
  isBehind,
  isStreaming,
  noteMessage,
  PACE,
  type Pace,
  parseFrame,
  resumeRequest,
  Session,
  voidLanes,
} from "../../src/client/index.ts";
import { saying } from "../../src/client/outgoing.ts";
import { FarEnd, TestClock } from "./stage.ts";

export interface FoldVector {
  readonly name: string;
  readonly conversation: string;
  readonly cursor?: number;
  readonly noted?: Readonly<Record<string, string>>;
  readonly steps: readonly FoldStep[];
}

export interface FoldStep {
  readonly frame: unknown;
  readonly effects: readonly unknown[];
  readonly resume: unknown;
  readonly state: unknown;
}

/** Fold the frames of a vector; return its steps in this client. */
export function playFold(vector: Pick<FoldVector, "conversation" | "cursor" | "noted" | "steps">): FoldStep[] {
  let state = emptyState(vector.conversation, vector.cursor);
  for (const [id, text] of Object.entries(vector.noted ?? {})) state = noteMessage(state, id, saying({ text }));
  return vector.steps.map(({ frame }) => {
    const read = parseFrame(frame);
    if (!read) throw new Error(`not a frame: ${JSON.stringify(frame)}`);
    const [next, effects] = foldFrame(state, read);
    state = next;
    return { frame, effects, resume: resumeRequest(state), state: plainState(state) };
  });
}

/** Return the facts about a state that both sides must agree on. */
export function plainState(state: ClientState): Record<string, unknown> {
  const { conversation: _, ...facts } = state;
  return {
    ...Object.fromEntries(Object.entries(facts).filter(([, value]) => typeof value !== "object")),
    behind: isBehind(state),
    streaming: isStreaming(state),
    lanes: Object.fromEntries(
      [...state.lanes].map(([name, { base, end, early }]) => [name, [base, end, early.length]]),
    ),
    known: [...state.control.facts.keys()].sort(),
    void: [...voidLanes(state.control)].sort(),
    due: [...state.control.due.keys()].sort(),
    parts: Object.fromEntries(
      [...state.parts].map(([n, pieces]) => [String(n), [...pieces.keys()].sort((a, b) => a - b)]),
    ),
    queued: Object.fromEntries(state.queued),
    unacked: [...state.unacked.keys()].sort(),
  };
}

type Step = { readonly at: number } & (
  | { readonly call: string; readonly args: readonly unknown[]; readonly given: Readonly<Record<string, unknown>> }
  | { readonly frame: Readonly<Record<string, unknown>> }
  | { readonly text: string }
  | { readonly refuse: number }
  | { readonly cut: true }
);

export interface SessionVector {
  readonly name: string;
  readonly conversation: string;
  readonly begins_s: number;
  readonly pace: Partial<Pace>;
  readonly until: number;
  readonly cursor?: number;
  readonly timezone?: string;
  readonly bundle?: string;
  readonly expires_in_s?: number;
  readonly steps: readonly Step[];
  readonly happens: readonly (readonly unknown[])[];
  readonly state: unknown;
}

/** Play a script, second by second; return the dials, requests and effects by time, and the final state. */
export async function playSession(vector: SessionVector): Promise<{ happens: unknown[]; state: unknown }> {
  const stage = new ScriptedSession(vector);
  await stage.play();
  return { happens: stage.happens, state: stage.named(plainState(stage.session.state)) };
}

class ScriptedSession {
  readonly happens: unknown[] = [];
  readonly session: Session;
  readonly #vector: SessionVector;
  readonly #clock: TestClock;
  readonly #far = new FarEnd((kind, request) => this.#say(kind, ...(request ? [request] : [])));
  /** The ids that were drawn. */
  readonly #ids: string[] = [];
  #drawn = 0;
  #tickets = 0;

  constructor(vector: SessionVector) {
    this.#vector = vector;
    this.#clock = new TestClock(vector.begins_s * 1000);
    const { timezone = "", bundle = "", expires_in_s: ttlS } = vector;
    const ticket = async () => {
      this.#tickets += 1;
      return `ticket-${this.#tickets}`;
    };
    this.session = new Session({
      dial: this.#far,
      clock: this.#clock,
      state: emptyState(vector.conversation, vector.cursor),
      pace: { ...PACE, ...vector.pace },
      ...(ttlS !== undefined && { credential: { expiresAtS: () => vector.begins_s + ttlS, ticket } }),
      timezone,
      bundle,
      // The maximum of every wait, plus an amount too small to move it that makes each id different.
      random: () => 1 + this.#next(),
      onEffects: (effects: readonly Effect[]) => {
        for (const effect of effects) this.#say("told", effect);
      },
      onLink: () => undefined,
      onFailure: (failure) => this.#say("failed", failure),
    });
  }

  async play(): Promise<void> {
    const left = [...this.#vector.steps];
    this.session.start();
    this.#far.settle();
    for (let at = 0; at < this.#vector.until; at += 1) {
      const nowMs = (this.#vector.begins_s + at) * 1000;
      this.#clock.sleep(nowMs - this.#clock.nowMs());
      const steps = left.filter((step) => step.at === at);
      for (const step of steps) if ("call" in step) this.#call(step.call, step.args, step.given);
      for (const step of steps) if ("refuse" in step) this.#far.refuses = step.refuse;
      await this.#settle(nowMs);
      for (const step of steps) {
        if ("frame" in step) this.#far.say(this.#dated(step.frame));
        if ("text" in step) this.#far.current.handlers.message(step.text);
        await this.#settle(nowMs);
      }
      for (const step of steps) if ("cut" in step) this.#far.cut();
      await this.#settle(nowMs);
    }
  }

  /** Return a value with the drawn ids as `$1`, `$2`, … */
  named(value: unknown): unknown {
    let text = JSON.stringify(value);
    this.#ids.forEach((drawn, i) => {
      text = text.replaceAll(drawn, `$${i + 1}`);
    });
    return JSON.parse(text);
  }

  async #settle(nowMs: number): Promise<void> {
    do {
      await Promise.resolve();
      await Promise.resolve();
      this.#far.settle();
    } while (this.#clock.runNext(nowMs));
  }

  #call(method: string, args: readonly unknown[], given: Readonly<Record<string, unknown>>): void {
    const options = Object.fromEntries(Object.entries(given).map(([name, value]) => [CAMEL[name] ?? name, value]));
    const call = (this.session as unknown as Record<string, (...all: unknown[]) => unknown>)[method];
    const filled = method === "rate" && args.length < 2 ? [...args, ""] : args;
    const done = call?.apply(this.session, [...filled, ...(Object.keys(options).length ? [options] : [])]);
    if (done instanceof Promise) done.then((exists) => this.#say("joined", exists));
    else if (typeof done === "string" && done.startsWith("m_")) this.#name(done);
  }

  /** Return a frame with the current ids and expiry. */
  #dated(frame: Readonly<Record<string, unknown>>): object {
    let text = JSON.stringify(frame);
    this.#ids.forEach((drawn, i) => {
      text = text.replaceAll(`$${i + 1}`, drawn);
    });
    const { expires_in_s: inS, ...known } = JSON.parse(text);
    return inS === undefined ? known : { ...known, expires_at: Math.round(this.#clock.nowMs() / 1000) + inS };
  }

  #say(kind: string, ...what: unknown[]): void {
    const [one] = what as { message_id?: string }[];
    if (kind === "sent" && one?.message_id?.startsWith("m_")) this.#name(one.message_id);
    this.happens.push([this.#clock.nowMs() / 1000 - this.#vector.begins_s, kind, ...(this.named(what) as unknown[])]);
  }

  #name(drawn: string): void {
    if (!this.#ids.includes(drawn)) this.#ids.push(drawn);
  }

  #next(): number {
    this.#drawn += 1;
    return this.#drawn / 0x100000000;
  }
}

const CAMEL: Readonly<Record<string, string>> = { message_id: "messageId" };
