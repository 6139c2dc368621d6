/**
 * One turn as a stream of a protocol's values: a session feeds the turn's parts, and a door renders their changes.
 *
 * The stream ends with the turn, or when the turn waits for a person. A slow reader is bounded in memory: the session
 * disconnects, and resumes from its position when the reader is back.
 */

import { BEYOND_END, ClientError, type ClientState, type Effect, isBehind, Session } from "../client/index.ts";
import type { Stage } from "./stage.ts";
import { type Change, foldTurn, follow, pauseOf, type TurnCursor } from "./turn_parts.ts";

/** A protocol: renders a change, with the state that it needs for that, and a failure of the connection. */
export interface Door<Value, State> {
  readonly empty: State;
  render(state: State, change: Change): readonly [State, readonly Value[]];
  fail(state: State, failure: { readonly code: string; readonly message: string }): readonly Value[];
  /** Render the end of a stream whose client stops the turn. */
  cancel?(state: State): readonly Value[];
}

export interface Following {
  readonly state: ClientState;
  readonly cursor: TurnCursor;
  /** Effects of the events that were read before. */
  readonly effects?: readonly Effect[];
  /** Send what begins or continues the turn, and return its message id. */
  readonly send?: (session: Session) => string;
  /** Is called when what was sent is in the log. */
  readonly onSent?: () => void;
  /** Ends the turn, unless `isStop` says that only this reader is replaced. */
  readonly signal?: AbortSignal | undefined;
  readonly isStop?: () => boolean;
  /** Receives the position after each frame. */
  readonly onState?: (state: ClientState) => void;
  /** Receives the turn when the reader has its beginning, and when it has its end. */
  readonly onTurn?: (turn: string, isEnded: boolean) => void;
  /** Return the events of a turn that the message joined; none if the reader has the turn already. */
  readonly joined?: (turn: string) => Promise<readonly Effect[]>;
  /** The stream continues while the turn waits for a person, instead of ending. */
  readonly isPatient?: boolean;
  /** How many values wait for the reader before the session pauses. */
  readonly waitingMax?: number;
}

/** The part of a stage that a turn is read by. */
export type Line = Pick<Stage, "dial" | "clock" | "credential" | "bundle" | "timezone">;

const WAITING_MAX = 1024;

export function streamTurn<Value, State>(
  stage: Line,
  door: Door<Value, State>,
  following: Following,
): ReadableStream<Value> {
  const turn = new TurnReader(stage, door, following);
  return new ReadableStream<Value>(turn, { highWaterMark: following.waitingMax ?? WAITING_MAX });
}

/** Hand on the values of a stream until it ends or the reader leaves; a promise of `take` holds the next one back. */
export async function handOn<Value>(
  stream: ReadableStream<Value>,
  take: (value: Value) => Promise<void> | void,
  left: AbortSignal,
): Promise<void> {
  const reader = stream.getReader();
  const leave = () => void reader.cancel();
  if (left.aborted) leave();
  left.addEventListener("abort", leave, { once: true });
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const held = take(next.value);
    if (held) await held;
  }
  left.removeEventListener("abort", leave);
}

class TurnReader<Value, State> implements UnderlyingDefaultSource<Value> {
  readonly #door: Door<Value, State>;
  readonly #following: Following;
  readonly #session: Session;
  #cursor: TurnCursor;
  #rendered: State;
  #controller: ReadableStreamDefaultController<Value> | null = null;
  #isPaused = false;
  #isOver = false;
  #isSynced = false;
  #sent = "";
  #isAcknowledged = true;
  /** The batch of the message, and the turn that ended first after it. */
  #sentN = 0;
  #joined = "";
  /** The id of the stop, once it is sent; null if none is requested. */
  #stop: string | null = null;

  constructor(stage: Line, door: Door<Value, State>, following: Following) {
    this.#door = door;
    this.#following = following;
    this.#cursor = following.cursor;
    this.#rendered = door.empty;
    this.#session = new Session({
      dial: stage.dial,
      clock: stage.clock,
      credential: stage.credential,
      state: following.state,
      timezone: stage.timezone,
      bundle: stage.bundle,
      onEffects: (effects) => this.#take(effects),
      onLink: () => undefined,
      onFailure: (failure) => this.#fail(failure),
    });
  }

  start(controller: ReadableStreamDefaultController<Value>): void {
    const { signal, send, effects = [], state } = this.#following;
    this.#controller = controller;
    this.#render(effects);
    if (this.#cursor.is === "ended") {
      this.#end();
      return;
    }
    signal?.addEventListener("abort", () => this.#abort(), { once: true });
    this.#session.start();
    // A new conversation has no events to request: its first message begins it.
    if (state.cursor > 0 || !send) this.#session.listen();
    else this.#isSynced = true;
    try {
      this.#sent = send?.(this.#session) ?? "";
      this.#isAcknowledged = !this.#sent;
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      this.#fail(error);
    }
    if (signal?.aborted) this.#abort();
  }

  pull(): void {
    if (!this.#isPaused) return;
    this.#isPaused = this.#isSynced = false;
    this.#session.start();
  }

  /** The reader leaves: the turn continues. */
  cancel(): void {
    this.#controller = null;
    if (this.#stop === null) this.#session.close();
  }

  #take(effects: readonly Effect[]): void {
    this.#following.onState?.(this.#session.state);
    this.#render(effects);
    for (const effect of effects) this.#note(effect);
    if (this.#isOver) return;
    if (this.#cursor.is === "ended") this.#end();
    else if (this.#waitsForPerson) {
      this.#renderAll(pauseOf(this.#cursor));
      this.#end();
    } else if (this.#isLeftOut(effects)) this.#showJoined();
    else if ((this.#controller?.desiredSize ?? 1) <= 0) {
      this.#isPaused = true;
      this.#session.close();
    }
  }

  #note(effect: Effect): void {
    if (effect.kind === "synced") this.#isSynced = true;
    if (effect.kind === "acknowledged" && effect.frame.message_id === this.#sent) {
      this.#isAcknowledged = true;
      this.#sentN = effect.frame.n;
      this.#following.onSent?.();
      this.#sendStop();
    }
    if (effect.kind === "turnEnded" && this.#isAcknowledged && effect.n > this.#sentN) this.#joined ||= effect.turnId;
    if (effect.kind === "handedBack" && effect.messageId === this.#sent) {
      this.#fail({ code: effect.reason, message: "no turn reads the message" });
    }
    const settled = effect.kind === "acknowledged" || effect.kind === "refused" ? effect.frame.message_id : null;
    if (settled !== null && settled === this.#stop) this.#session.close();
    else if (this.#isReplaced(effect)) this.#isSynced = false;
    else if (effect.kind === "refused" && [this.#sent, ""].includes(effect.frame.message_id)) this.#fail(effect.frame);
  }

  /** The conversation was replaced before this turn began: the session reads the new one from its beginning. */
  #isReplaced(effect: Effect): boolean {
    return effect.kind === "refused" && effect.frame.code === BEYOND_END && this.#cursor.is === "before";
  }

  /** The turn waits for an answer that this client has not sent. */
  get #waitsForPerson(): boolean {
    const { state } = this.#session;
    if (this.#following.isPatient) return false;
    return this.#cursor.request !== null && this.#isSynced && this.#isAcknowledged && !isBehind(state);
  }

  /** The message joined a turn that ended, so no turn of its own follows. */
  #isLeftOut(effects: readonly Effect[]): boolean {
    const ended = effects.some((effect) => effect.kind === "turnEnded");
    const { state } = this.#session;
    return ended && this.#cursor.is === "before" && this.#isAcknowledged && !state.open && !isBehind(state);
  }

  /** Show the turn that has read the message. */
  #showJoined(): void {
    const turn = this.#joined;
    this.#isOver = true;
    this.#session.close();
    const show = (effects: readonly Effect[]) => {
      this.#cursor = follow({ turn });
      this.#render(effects);
      this.#end();
    };
    (this.#following.joined?.(turn) ?? Promise.resolve([])).then(show, (error) => this.#fail(error));
  }

  #render(effects: readonly Effect[]): void {
    for (const effect of effects) {
      const [cursor, changes] = foldTurn(this.#cursor, effect);
      this.#cursor = cursor;
      this.#renderAll(changes);
    }
  }

  #renderAll(changes: readonly Change[]): void {
    for (const change of changes) {
      const [rendered, values] = this.#door.render(this.#rendered, change);
      this.#rendered = rendered;
      for (const value of values) this.#controller?.enqueue(value);
      if (this.#controller && (change.do === "begin" || change.do === "end")) {
        this.#following.onTurn?.(this.#cursor.turn, change.do === "end");
      }
    }
  }

  /** Stop the turn. A message that is not in the log yet would outlive an earlier stop. */
  #abort(): void {
    if (this.#isOver) return;
    this.#stop = "";
    // A new reader aborts the one before it, and asks for its own stream at once.
    queueMicrotask(() => {
      if (this.#following.isStop?.() === false) {
        this.#end();
        return;
      }
      for (const value of this.#door.cancel?.(this.#rendered) ?? []) this.#controller?.enqueue(value);
      this.#controller?.close();
      this.#controller = null;
      this.#sendStop();
    });
  }

  #sendStop(): void {
    if (this.#stop !== "" || !this.#isAcknowledged) return;
    this.#session.start();
    this.#stop = this.#session.stop();
  }

  #fail(failure: { readonly code: string; readonly message: string }): void {
    for (const value of this.#door.fail(this.#rendered, failure)) this.#controller?.enqueue(value);
    this.#end();
  }

  #end(): void {
    this.#isOver = true;
    this.#session.close();
    this.#controller?.close();
    this.#controller = null;
  }
}
