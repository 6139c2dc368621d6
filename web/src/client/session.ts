/**
 * A session of one conversation over a websocket that may break.
 *
 * It feeds the fold, reconnects and resumes automatically, and sends a message again under the same id until the server
 * has answered it. `Link` keeps a connection, `Catchup` schedules resumes, `Outbox` schedules unanswered messages, and
 * `Renewal` renews the token. Clock, dial, random source and credential are injected. A single timer is set for
 * whatever is due next.
 */

import { Catchup } from "./catchup.ts";
import { wellFormed } from "./characters.ts";
import type { Clock, Random } from "./clock.ts";
import { type Credential, Renewal } from "./credential.ts";
import type { Effect } from "./effect.ts";
import { ClientError, type Failure } from "./failure.ts";
import { BEYOND_END, type ErrorFrame, EXPIRED, type Frame, type Said, UNKNOWN_ZONE } from "./frames.ts";
import { type Dial, Link, type LinkState } from "./link.ts";
import { noAnswer, Outbox } from "./outbox.ts";
import { encodeRequest, type Reaction, type Request, STOPPING, saying, steering, type Verdict } from "./outgoing.ts";
import { PACE, type Pace } from "./pace.ts";
import { foldFrame, isPassing, resumeRequest } from "./reducer.ts";
import { type ClientState, forgetMessage, noteMessage, sendRequest } from "./state.ts";
import { errorFrame, readFrame } from "./wire.ts";

const NEVER = Number.POSITIVE_INFINITY;
/** The longest timer of the session. Browsers cap a delay at 24 days. */
const TIMER_MAX_MS = 3_600_000;

export interface SessionOptions {
  readonly dial: Dial;
  readonly clock: Clock;
  /** The conversation and this client's position in it, such as `emptyState(conversation)`. */
  readonly state: ClientState;
  readonly pace?: Pace;
  /**
   * With a credential, the connection outlives the token that opened it. Without one, it is replaced when the token has
   * expired.
   */
  readonly credential?: Credential;
  /** The user's time zone, a name from the IANA database. Every message names it, if the server knows it. */
  readonly timezone?: string;
  /** The bundle that every message names. */
  readonly bundle?: string;
  /**
   * The maximum size of a message in bytes. Use `FRAME_MAX_BYTES` where the dial cannot split a message into frames, as
   * in a browser.
   */
  readonly maxBytes?: number;
  readonly random?: Random;
  /** Receives the effects of one frame, or of work that was due; `state` is the state after all of them. */
  onEffects(effects: readonly Effect[], state: ClientState): void;
  onLink(link: LinkState): void;
  /** The session is over until the next `start`. `unauthorized`: sign in again. `format_newer`: load a newer client. */
  onFailure(failure: Failure): void;
}

interface Joining {
  readonly untilMs: number;
  resolve(exists: boolean): void;
  reject(error: ClientError): void;
}

/**
 * Sends messages and reports effects; `state` is the client's current state. You may send messages before the link is
 * open.
 */
export class Session {
  state: ClientState;
  /** True once this connection has requested events. */
  listening = false;
  readonly #options: SessionOptions;
  readonly #pace: Pace;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #link: Link;
  readonly #outbox: Outbox;
  readonly #catchup: Catchup;
  readonly #renewal: Renewal | null;
  #timezone: string;
  #effects: Effect[] = [];
  #joining: Joining | null = null;
  #isKnown: boolean;
  #isTrusted = false;
  #watchDueMs = NEVER;
  #watches = false;
  #pingedMs = 0;
  #unanswered = 0;
  #receivedMs: number;
  /** The time by which a frame must arrive after a wake. */
  #wakeDueMs = NEVER;
  #armedForMs = NEVER;
  #disarm: () => void = () => undefined;

  constructor(options: SessionOptions) {
    const { dial, clock, state, credential, pace = PACE, random = Math.random } = options;
    this.state = state;
    this.#options = options;
    this.#pace = pace;
    this.#clock = clock;
    this.#random = random;
    this.#timezone = options.timezone ?? "";
    this.#isKnown = state.cursor > 0;
    this.#receivedMs = clock.nowMs();
    this.#outbox = new Outbox(clock, pace);
    this.#catchup = new Catchup(clock, pace, state.cursor);
    this.#renewal = credential ? new Renewal(credential, clock, pace) : null;
    this.#link = new Link(dial, clock, pace, random, {
      opened: () => this.#turn(() => this.#greet()),
      message: (text) => this.#turn(() => this.#receive(text)),
      changed: (link) => options.onLink(link),
      refused: (failure) => options.onFailure(failure),
      planned: () => this.#arm(),
    });
  }

  /** The state of the connection. */
  get link(): LinkState {
    return this.#link.state;
  }

  /** Connect, and resume the conversation if it is known. */
  start(): void {
    this.#link.start();
    this.#arm();
  }

  /** Close the connection and stop. */
  close(): void {
    this.#link.close();
    this.#joining?.reject(new ClientError("closed", "the session was closed"));
    this.#joining = null;
    this.#arm();
  }

  /** Request all events after the cursor, and new ones as they happen. */
  listen(): void {
    this.#isKnown = true;
    this.#resume();
    this.#arm();
  }

  /**
   * Request the feed of all of the user's conversations, on this connection and on each later one.
   *
   * Read the list whenever a `feedHeard` effect carries a `watching` frame. Such a frame is repeated from time to time;
   * see `feed.ts`.
   */
  watch(): void {
    this.#watches = true;
    this.#requestFeed();
    this.#arm();
  }

  /**
   * Move to the newest event of the conversation without its history; resolve to false if it does not exist.
   *
   * Rejects with ClientError `no_answer`, or with the code of the server's refusal.
   */
  join(): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#joining = { untilMs: this.#clock.nowMs() + this.#pace.answerS * 1000, resolve, reject };
      this.#requestNewest();
      this.#arm();
    });
  }

  /**
   * Send a message with the files of `uploads`, and return its id.
   *
   * Throws ClientError `message_too_large` before anything is sent.
   */
  say(text: string, given: { messageId?: string; uploads?: readonly string[] } = {}): string {
    return this.#send(saying({ text, uploads: given.uploads ?? [] }), given.messageId);
  }

  /** Send an event of this kind and return its id. Throws as `say` does. */
  tell(kind: string, payload: Readonly<Record<string, unknown>> = {}, fields: Partial<Said> = {}): string {
    return this.#send(saying({ ...fields, kind, payload }));
  }

  /** Interrupt the open turn, let it finish with this text, and return the message's id. Throws as `say` does. */
  steer(text: string): string {
    return this.#send(steering(text));
  }

  /** End the open turn, and return the message's id. */
  stop(): string {
    return this.#send(STOPPING);
  }

  /**
   * Decide whether a call may run, and return the message's id.
   *
   * `params` replace the parameters of an edited call; `text` is the reason for a denial. Throws as `say` does.
   */
  answer(
    verdict: Verdict,
    callId: string,
    given: { params?: Readonly<Record<string, unknown>>; text?: string } = {},
  ): string {
    return this.#send(saying({ verdict, callId, payload: given.params ?? {}, text: given.text ?? "" }));
  }

  /** Rate a turn, by default the newest that has ended, or remove its rating (null). Return the message's id. */
  rate(reaction: Reaction | null, text = "", given: { turn?: string } = {}): string {
    return this.#send(saying({ rates: true, reaction, text, turn: given.turn ?? "" }));
  }

  /**
   * Check whether the connection still works, because the machine may have slept or changed its network.
   *
   * A connection that stays silent for `wakeAnswerS` is replaced. A lost one is retried at once.
   */
  wake(): void {
    this.#turn(() => {
      if (!this.#link.isOpen) this.#link.hurry();
      else if (this.#wakeDueMs === NEVER) this.#probe();
    });
  }

  #send(given: Said, messageId = this.#messageId()): string {
    const bundle = this.#options.bundle ?? "";
    const said = wellFormed({ ...given, timezone: given.timezone || this.#timezone, bundle });
    const noted = noteMessage(this.state, messageId, said);
    encodeRequest(sendRequest(noted, messageId), this.#options.maxBytes);
    this.state = noted;
    this.#sendAgain(messageId);
    this.#arm();
    return messageId;
  }

  #messageId(): string {
    const draw = () => Math.floor(this.#random() * 0x100000000) % 0x100000000;
    return `m_${[draw(), draw()].map((half) => half.toString(16).padStart(8, "0")).join("")}`;
  }

  /** Perform an action, then everything that is due; report the effects of both. */
  #turn(act: () => void): void {
    try {
      act();
      this.#runDue();
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      this.close();
      this.#options.onFailure(error);
    }
    this.#arm();
    const effects = this.#effects;
    this.#effects = [];
    if (effects.length) this.#options.onEffects(effects, this.state);
  }

  /** Set the timer for what is due next. */
  #arm(): void {
    const dueMs = this.#nextDueMs();
    if (dueMs === this.#armedForMs) return;
    this.#disarm();
    this.#armedForMs = dueMs;
    this.#disarm = () => undefined;
    if (dueMs === NEVER) return;
    const delayMs = Math.min(Math.max(dueMs - this.#clock.nowMs(), 0), TIMER_MAX_MS);
    this.#disarm = this.#clock.after(delayMs, () => {
      this.#armedForMs = NEVER;
      this.#turn(() => this.#noticeSleep(dueMs));
    });
  }

  #nextDueMs(): number {
    const joinDueMs = this.#joining?.untilMs ?? NEVER;
    if (!this.#link.isOpen || this.#joining) return Math.min(this.#link.dueMs, joinDueMs);
    return Math.min(
      this.#link.dueMs,
      this.#renewal?.dueMs ?? NEVER,
      this.#isKnown ? this.#pingDueMs() : NEVER,
      this.#watchDueMs,
      this.#catchup.dueMs(this.state),
      this.#outbox.dueMs,
      this.#silentDueMs(),
      this.#wakeDueMs,
    );
  }

  /** Detect that a timer fired very late: the machine slept, and the connection may be gone silently. */
  #noticeSleep(dueMs: number): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs < dueMs + this.#pace.asleepS * 1000) return;
    this.#receivedMs = nowMs; // the silence of a sleeping machine says nothing about the turn
    if (this.#link.isOpen) this.#probe();
    else this.#link.hurry();
  }

  /** Send a request that is answered at once. A connection that has requested nothing yet is simply replaced. */
  #probe(): void {
    if (!this.#isKnown && !this.#watches) {
      this.#link.drop();
      return;
    }
    this.#wakeDueMs = this.#clock.nowMs() + this.#pace.wakeAnswerS * 1000;
    if (this.#watches) this.#requestFeed();
    if (!this.#isKnown) return;
    this.#pingedMs = this.#clock.nowMs();
    this.#unanswered += 1;
    this.#requestNewest();
  }

  /** Handle one frame. */
  #receive(text: string): void {
    this.#wakeDueMs = NEVER;
    const frame = readFrame(text);
    if (!frame) return;
    this.#noteAnswer(frame);
    if (this.#joining) {
      this.#continueJoining(this.#joining, frame);
      return;
    }
    if (this.#hasDroppedZone(frame)) return;
    const [state, effects] = foldFrame(this.state, frame);
    this.state = state;
    for (const effect of effects) {
      const reported = this.#note(effect);
      if (reported) this.#effects.push(reported);
    }
  }

  #continueJoining(joining: Joining, frame: Frame): void {
    if (frame.frame !== "pong" && frame.frame !== "error") return;
    this.#joining = null;
    if (frame.frame === "pong") {
      this.state = { ...this.state, cursor: frame.n };
      this.listen();
      joining.resolve(true);
    } else if (frame.code === "not_found") {
      joining.resolve(false);
    } else {
      joining.reject(new ClientError(frame.code, frame.message));
    }
  }

  /**
   * If the server does not know the message's time zone, send the message again without it and return true.
   *
   * The server's database may be older than ours, or missing. Later messages name no zone either.
   */
  #hasDroppedZone(frame: Frame): boolean {
    if (frame.frame !== "error" || frame.code !== UNKNOWN_ZONE) return false;
    const said = this.state.unacked.get(frame.message_id);
    if (!said?.timezone) return false;
    this.#timezone = "";
    this.state = noteMessage(this.state, frame.message_id, { ...said, timezone: "" });
    this.#sendAgain(frame.message_id);
    return true;
  }

  /** Note that the connection works and, for most frames, that the token was accepted. */
  #noteAnswer(frame: Frame): void {
    const nowMs = this.#clock.nowMs();
    this.#unanswered = 0;
    if (["ack", "auth", "pong", "sync", "watching"].includes(frame.frame)) this.#isTrusted = true;
    if (frame.frame === "watching") this.#watchDueMs = nowMs + this.#pace.idlePingEveryS * 1000;
    if (frame.frame !== "pong" && frame.frame !== "sync") this.#receivedMs = nowMs;
    if (frame.frame === "auth") this.#renewal?.plan(frame.expires_at);
  }

  /** Update the session by an effect; return the effect to report. */
  #note(effect: Effect): Effect | null {
    switch (effect.kind) {
      case "synced":
        this.#catchup.synced = true;
        this.#catchup.putOff();
        return effect;
      case "acknowledged":
        this.#outbox.settle(effect.frame.message_id);
        // From then on, a sender receives the events of its conversation.
        this.#isKnown = this.listening = true;
        if (effect.frame.duplicate) this.#resume(); // events after the first delivery may have been missed
        return effect;
      case "refused":
        return this.#noteRefusal(effect.frame);
      default:
        return effect;
    }
  }

  #noteRefusal(frame: ErrorFrame): Effect | null {
    const isExpired = EXPIRED.has(frame.code);
    if (isExpired && this.#isTrusted) {
      this.#isTrusted = false;
      this.#link.drop();
      return null;
    }
    if (this.state.unacked.has(frame.message_id) && this.#mayRetry(frame)) {
      this.#outbox.refuse(frame);
      return frame.retry_after_s ? { kind: "putOff", frame } : null;
    }
    if (this.#renewal?.isAsked && isPassing(frame) && !frame.conversation) {
      this.#renewal.isAsked = false; // requested again when its answer is due
      return null;
    }
    if (frame.retryable && !frame.message_id && this.#catchup.tries < this.#pace.tries) {
      this.#outbox.putOffAll();
      this.#catchup.putOff();
      return null;
    }
    this.#giveUp(frame.message_id);
    if (!frame.message_id) this.#catchup.synced = true; // a permanent refusal is not retried
    if (frame.code === BEYOND_END) this.#listenAgain();
    if (this.state.deleted) this.#isKnown = false; // nothing is left to request
    if (isExpired) this.#refuse(frame);
    return { kind: "refused", frame };
  }

  /**
   * End the session, because a fresh token is refused, too. The user has to sign in again; then the page restarts the
   * session.
   */
  #refuse(frame: ErrorFrame): void {
    this.#link.refuse();
    this.#options.onFailure({ code: "unauthorized", message: frame.message });
  }

  /** Return true if the refused message can be sent again after a while. */
  #mayRetry(refusal: ErrorFrame): boolean {
    const soon = refusal.retry_after_s <= this.#pace.retryAfterMaxS;
    return refusal.retryable && soon && !this.#outbox.isSpent(refusal.message_id);
  }

  #listenAgain(): void {
    this.#isKnown = true;
    this.#resume(); // from the beginning
  }

  #runDue(): void {
    this.#link.runDue();
    const nowMs = this.#clock.nowMs();
    if (this.#joining && nowMs >= this.#joining.untilMs) {
      this.#joining.reject(new ClientError("no_answer", "the server does not answer"));
      this.#joining = null;
    }
    if (this.#joining || !this.#link.isOpen) return;
    if (nowMs >= this.#wakeDueMs) this.#link.drop();
    if (this.#renewal && nowMs >= this.#renewal.dueMs) {
      this.#renewal.renew((ticket) => {
        this.#request({ action: "auth", ticket });
        this.#arm();
      });
    }
    if (this.#isKnown && nowMs >= this.#pingDueMs()) this.#ping();
    if (!this.#link.isOpen) return; // the last ping was not answered
    if (nowMs >= this.#watchDueMs) this.#requestFeed();
    if (nowMs >= this.#catchup.dueMs(this.state)) this.#resumeMissing();
    this.#resendDue();
    if (nowMs >= this.#silentDueMs()) {
      this.#receivedMs = nowMs;
      this.#effects.push({ kind: "refused", frame: silent(this.state.conversation) });
    }
  }

  #resendDue(): void {
    for (const messageId of this.#outbox.due()) {
      if (!this.#outbox.isSpent(messageId)) {
        this.#sendAgain(messageId);
        continue;
      }
      const frame = this.#outbox.lastRefusal(this.state.conversation, messageId);
      this.#giveUp(messageId);
      this.#effects.push({ kind: "refused", frame });
    }
  }

  #resumeMissing(): void {
    if (!this.#catchup.isSpent) {
      this.#resume();
      return;
    }
    this.#catchup.giveUp();
    this.#effects.push({ kind: "refused", frame: noAnswer(this.state.conversation) });
  }

  #pingDueMs(): number {
    const everyS = this.state.open ? this.#pace.pingEveryS : this.#pace.idlePingEveryS;
    return this.#pingedMs + (this.#unanswered ? this.#pace.answerS : everyS) * 1000;
  }

  #silentDueMs(): number {
    const { open, approval, place } = this.state;
    return open && !approval && place === 0 ? this.#receivedMs + this.#pace.silentS * 1000 : NEVER;
  }

  /** Request the newest event number. After several unanswered pings, reconnect. */
  #ping(): void {
    this.#pingedMs = this.#clock.nowMs();
    if (this.#unanswered >= this.#pace.pings) {
      this.#link.drop();
      return;
    }
    this.#unanswered += 1;
    this.#requestNewest();
  }

  #requestNewest(): void {
    this.#request({ action: "ping", conversation: this.state.conversation });
  }

  #requestFeed(): void {
    this.#watchDueMs = this.#clock.nowMs() + this.#pace.answerS * 1000;
    this.#request({ action: "watch" });
  }

  #sendAgain(messageId: string): void {
    this.#outbox.note(messageId);
    this.#request(sendRequest(this.state, messageId));
  }

  #giveUp(messageId: string): void {
    this.state = forgetMessage(this.state, messageId);
    this.#outbox.settle(messageId);
  }

  #resume(): void {
    this.listening = true;
    this.#catchup.note();
    this.#request(resumeRequest(this.state));
  }

  /** Send a request. Without a connection it is dropped: `#greet` repeats every request on the next one. */
  #request(request: Request): void {
    if (this.#link.isOpen) this.#link.send(encodeRequest(request));
  }

  /** Start on a new connection: resume, and send all unanswered messages again. */
  #greet(): void {
    this.listening = false;
    this.#renewal?.begin();
    // The silence of a lost connection says nothing about the turn.
    this.#pingedMs = this.#receivedMs = this.#clock.nowMs();
    this.#unanswered = 0;
    this.#wakeDueMs = NEVER;
    this.#outbox.resendAll();
    if (this.#joining) this.#requestNewest();
    if (this.#isKnown) this.#resume();
    if (this.#watches) this.#requestFeed();
  }
}

/** Return the error frame for a turn that has been silent for too long. */
function silent(conversation: string): ErrorFrame {
  const message = "the turn has sent nothing for longer than a turn may take";
  return errorFrame({ code: "turn_silent", message, conversation });
}
