/**
 * A session of one conversation over a websocket that may break.
 *
 * It feeds the fold, reconnects and resumes by itself, and sends a message again under the same id until the server has answered
 * it. `Link` keeps a connection, `Catchup` schedules resumes, `Outbox` schedules unanswered messages, `Renewal` renews the token.
 * Clock, dial, chance and credential are injected. One timer is set at a time, for what is due next.
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
/** A timer of a browser takes no longer delay than 24 days. */
const TIMER_MAX_MS = 3_600_000;

export interface SessionOptions {
  readonly dial: Dial;
  readonly clock: Clock;
  /** The conversation, and where this client stands in it: `emptyState(conversation)`. */
  readonly state: ClientState;
  readonly pace?: Pace;
  /** With one, the connection outlives the token it was opened with; without, it is replaced when the token has expired. */
  readonly credential?: Credential;
  /** The user's, a name of the IANA database: every message names it, if the server knows it. */
  readonly timezone?: string;
  /** The bundle that every message names. */
  readonly bundle?: string;
  /** The most bytes of a message: `FRAME_MAX_BYTES` where the dial cannot cut one into frames, as in a browser. */
  readonly maxBytes?: number;
  readonly random?: Random;
  /** Takes what one frame, or what was due, came to; `state` is the state after all of it. */
  onEffects(effects: readonly Effect[], state: ClientState): void;
  onLink(link: LinkState): void;
  /** The session is over, until `start`: `unauthorized`, sign in again; `format_newer`, load a newer client. */
  onFailure(failure: Failure): void;
}

interface Joining {
  readonly untilMs: number;
  resolve(exists: boolean): void;
  reject(error: ClientError): void;
}

/** Send messages, and hear effects; `state` is the client's current state. Messages may be sent before the link is open. */
export class Session {
  state: ClientState;
  /** True once this connection has asked for events. */
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
  #told: Effect[] = [];
  #joining: Joining | null = null;
  #isKnown: boolean;
  #isTrusted = false;
  #watchDueMs = NEVER;
  #watches = false;
  #pingedMs = 0;
  #unheard = 0;
  #heardMs: number;
  /** The time until which something has to be heard after a wake. */
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
    this.#heardMs = clock.nowMs();
    this.#outbox = new Outbox(clock, pace);
    this.#catchup = new Catchup(clock, pace, state.cursor);
    this.#renewal = credential ? new Renewal(credential, clock, pace) : null;
    this.#link = new Link(dial, clock, pace, random, {
      opened: () => this.#turn(() => this.#greet()),
      message: (text) => this.#turn(() => this.#hear(text)),
      changed: (link) => options.onLink(link),
      refused: (failure) => options.onFailure(failure),
      planned: () => this.#arm(),
    });
  }

  /** How the connection stands. */
  get link(): LinkState {
    return this.#link.state;
  }

  /** Connect; resume the conversation if it is known. */
  start(): void {
    this.#link.start();
    this.#arm();
  }

  /** Close the connection, and do nothing more. */
  close(): void {
    this.#link.close();
    this.#joining?.reject(new ClientError("closed", "the session was closed"));
    this.#joining = null;
    this.#arm();
  }

  /** Ask for all events after the cursor, and for new ones as they happen. */
  listen(): void {
    this.#isKnown = true;
    this.#resume();
    this.#arm();
  }

  /**
   * Ask for the feed of all of the user's conversations, on this connection and each that follows it.
   *
   * The list is to be read whenever a `feedHeard` brings a frame `watching`, which comes again from time to time: `feed.ts`.
   */
  watch(): void {
    this.#watches = true;
    this.#askToWatch();
    this.#arm();
  }

  /**
   * Move to the newest event of the conversation without its history; resolve to false if it does not exist.
   *
   * Rejects with ClientError `no_answer`, or the code of the server's refusal.
   */
  join(): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#joining = { untilMs: this.#clock.nowMs() + this.#pace.answerS * 1000, resolve, reject };
      this.#askForNewest();
      this.#arm();
    });
  }

  /**
   * Send a message and return its id; it comes with the files of `uploads`.
   *
   * Throws ClientError `message_too_large` before anything is sent.
   */
  say(text: string, given: { messageId?: string; uploads?: readonly string[] } = {}): string {
    return this.#tell(saying({ text, uploads: given.uploads ?? [] }), given.messageId);
  }

  /** Send an event of this kind and return its id. Throws as `say` does. */
  tell(kind: string, payload: Readonly<Record<string, unknown>> = {}, fields: Partial<Said> = {}): string {
    return this.#tell(saying({ ...fields, kind, payload }));
  }

  /** Interrupt the open turn, have it finish by this text, and return the message's id. Throws as `say` does. */
  steer(text: string): string {
    return this.#tell(steering(text));
  }

  /** End the open turn, and return the message's id. */
  stop(): string {
    return this.#tell(STOPPING);
  }

  /**
   * Answer whether a call may run, and return the message's id.
   *
   * `params` are those of an edited call, `text` the words of a denial. Throws as `say` does.
   */
  answer(
    verdict: Verdict,
    callId: string,
    given: { params?: Readonly<Record<string, unknown>>; text?: string } = {},
  ): string {
    return this.#tell(saying({ verdict, callId, payload: given.params ?? {}, text: given.text ?? "" }));
  }

  /** Rate a turn, by default the newest that has ended, or take that back (null); return the message's id. */
  rate(reaction: Reaction | null, text = "", given: { turn?: string } = {}): string {
    return this.#tell(saying({ rates: true, reaction, text, turn: given.turn ?? "" }));
  }

  /**
   * Look whether the connection still stands, because the machine may have slept or changed its network.
   *
   * One that says nothing within `wakeAnswerS` is replaced; a lost one is tried again at once.
   */
  wake(): void {
    this.#turn(() => {
      if (!this.#link.isOpen) this.#link.hurry();
      else if (this.#wakeDueMs === NEVER) this.#probe();
    });
  }

  #tell(given: Said, messageId = this.#messageId()): string {
    const bundle = this.#options.bundle ?? "";
    const said = wellFormed({ ...given, timezone: given.timezone || this.#timezone, bundle });
    const noted = noteMessage(this.state, messageId, said);
    encodeRequest(sendRequest(noted, messageId), this.#options.maxBytes);
    this.state = noted;
    this.#sayAgain(messageId);
    this.#arm();
    return messageId;
  }

  #messageId(): string {
    const draw = () => Math.floor(this.#random() * 0x100000000) % 0x100000000;
    return `m_${[draw(), draw()].map((half) => half.toString(16).padStart(8, "0")).join("")}`;
  }

  /** Do something that the world has asked for, then what is due; tell the effects of both. */
  #turn(act: () => void): void {
    try {
      act();
      this.#doWhatIsDue();
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      this.close();
      this.#options.onFailure(error);
    }
    this.#arm();
    const told = this.#told;
    this.#told = [];
    if (told.length) this.#options.onEffects(told, this.state);
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

  /** Notice that a timer is very late: the machine slept, and the connection may be gone without a word. */
  #noticeSleep(dueMs: number): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs < dueMs + this.#pace.asleepS * 1000) return;
    this.#heardMs = nowMs; // the silence of a sleeping machine says nothing about the turn
    if (this.#link.isOpen) this.#probe();
    else this.#link.hurry();
  }

  /** Ask for something that is answered at once. A connection that is good for nothing yet is simply replaced. */
  #probe(): void {
    if (!this.#isKnown && !this.#watches) {
      this.#link.drop();
      return;
    }
    this.#wakeDueMs = this.#clock.nowMs() + this.#pace.wakeAnswerS * 1000;
    if (this.#watches) this.#askToWatch();
    if (!this.#isKnown) return;
    this.#pingedMs = this.#clock.nowMs();
    this.#unheard += 1;
    this.#askForNewest();
  }

  /** Take one frame. */
  #hear(text: string): void {
    this.#wakeDueMs = NEVER;
    const frame = readFrame(text);
    if (!frame) return;
    this.#noteAnswer(frame);
    if (this.#joining) {
      this.#goOnJoining(this.#joining, frame);
      return;
    }
    if (this.#hasDroppedZone(frame)) return;
    const [state, effects] = foldFrame(this.state, frame);
    this.state = state;
    for (const effect of effects) {
      const told = this.#note(effect);
      if (told) this.#told.push(told);
    }
  }

  #goOnJoining(joining: Joining, frame: Frame): void {
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
   * Send a message again without its time zone if the server knows no such zone; return true if it was.
   *
   * The server's database may be older than ours, or missing. Later messages name no zone either.
   */
  #hasDroppedZone(frame: Frame): boolean {
    if (frame.frame !== "error" || frame.code !== UNKNOWN_ZONE) return false;
    const said = this.state.unacked.get(frame.message_id);
    if (!said?.timezone) return false;
    this.#timezone = "";
    this.state = noteMessage(this.state, frame.message_id, { ...said, timezone: "" });
    this.#sayAgain(frame.message_id);
    return true;
  }

  /** Note that the connection works and, for most frames, that the token was accepted. */
  #noteAnswer(frame: Frame): void {
    const nowMs = this.#clock.nowMs();
    this.#unheard = 0;
    if (["ack", "auth", "pong", "sync", "watching"].includes(frame.frame)) this.#isTrusted = true;
    if (frame.frame === "watching") this.#watchDueMs = nowMs + this.#pace.idlePingEveryS * 1000;
    if (frame.frame !== "pong" && frame.frame !== "sync") this.#heardMs = nowMs;
    if (frame.frame === "auth") this.#renewal?.plan(frame.expires_at);
  }

  /** Update the session by an effect; return what is told of it. */
  #note(effect: Effect): Effect | null {
    switch (effect.kind) {
      case "synced":
        this.#catchup.synced = true;
        this.#catchup.putOff();
        return effect;
      case "acknowledged":
        this.#outbox.settle(effect.frame.message_id);
        // A sender receives the events of its conversation from then on.
        this.#isKnown = this.listening = true;
        if (effect.frame.duplicate) this.#resume(); // events that followed the first delivery may have been missed
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
    if (this.state.unacked.has(frame.message_id) && this.#mayBeTaken(frame)) {
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
    if (this.state.deleted) this.#isKnown = false; // there is nothing to ask for
    if (isExpired) this.#refuse(frame);
    return { kind: "refused", frame };
  }

  /** End: a fresh token is refused, too. A reader has to sign in again, and the page starts the session anew then. */
  #refuse(frame: ErrorFrame): void {
    this.#link.refuse();
    this.#options.onFailure({ code: "unauthorized", message: frame.message });
  }

  /** Return true if the refused message is to be sent again after a while. */
  #mayBeTaken(refusal: ErrorFrame): boolean {
    const soon = refusal.retry_after_s <= this.#pace.retryAfterMaxS;
    return refusal.retryable && soon && !this.#outbox.isSpent(refusal.message_id);
  }

  #listenAgain(): void {
    this.#isKnown = true;
    this.#resume(); // from the beginning
  }

  #doWhatIsDue(): void {
    this.#link.doWhatIsDue();
    const nowMs = this.#clock.nowMs();
    if (this.#joining && nowMs >= this.#joining.untilMs) {
      this.#joining.reject(new ClientError("no_answer", "the server does not answer"));
      this.#joining = null;
    }
    if (this.#joining || !this.#link.isOpen) return;
    if (nowMs >= this.#wakeDueMs) this.#link.drop();
    if (this.#renewal && nowMs >= this.#renewal.dueMs) {
      this.#renewal.renew((ticket) => {
        this.#ask({ action: "auth", ticket });
        this.#arm();
      });
    }
    if (this.#isKnown && nowMs >= this.#pingDueMs()) this.#ping();
    if (!this.#link.isOpen) return; // after the last ping that nobody answered
    if (nowMs >= this.#watchDueMs) this.#askToWatch();
    if (nowMs >= this.#catchup.dueMs(this.state)) this.#askForWhatIsMissing();
    this.#sayWhatIsDue();
    if (nowMs >= this.#silentDueMs()) {
      this.#heardMs = nowMs;
      this.#told.push({ kind: "refused", frame: silent(this.state.conversation) });
    }
  }

  #sayWhatIsDue(): void {
    for (const messageId of this.#outbox.due()) {
      if (!this.#outbox.isSpent(messageId)) {
        this.#sayAgain(messageId);
        continue;
      }
      const frame = this.#outbox.lastWord(this.state.conversation, messageId);
      this.#giveUp(messageId);
      this.#told.push({ kind: "refused", frame });
    }
  }

  #askForWhatIsMissing(): void {
    if (!this.#catchup.isSpent) {
      this.#resume();
      return;
    }
    this.#catchup.giveUp();
    this.#told.push({ kind: "refused", frame: noAnswer(this.state.conversation) });
  }

  #pingDueMs(): number {
    const everyS = this.state.open ? this.#pace.pingEveryS : this.#pace.idlePingEveryS;
    return this.#pingedMs + (this.#unheard ? this.#pace.answerS : everyS) * 1000;
  }

  #silentDueMs(): number {
    const { open, approval, place } = this.state;
    return open && !approval && place === 0 ? this.#heardMs + this.#pace.silentS * 1000 : NEVER;
  }

  /** Ask for the newest event number; after several pings without any answer, reconnect. */
  #ping(): void {
    this.#pingedMs = this.#clock.nowMs();
    if (this.#unheard >= this.#pace.pings) {
      this.#link.drop();
      return;
    }
    this.#unheard += 1;
    this.#askForNewest();
  }

  #askForNewest(): void {
    this.#ask({ action: "ping", conversation: this.state.conversation });
  }

  #askToWatch(): void {
    this.#watchDueMs = this.#clock.nowMs() + this.#pace.answerS * 1000;
    this.#ask({ action: "watch" });
  }

  #sayAgain(messageId: string): void {
    this.#outbox.note(messageId);
    this.#ask(sendRequest(this.state, messageId));
  }

  #giveUp(messageId: string): void {
    this.state = forgetMessage(this.state, messageId);
    this.#outbox.settle(messageId);
  }

  #resume(): void {
    this.listening = true;
    this.#catchup.note();
    this.#ask(resumeRequest(this.state));
  }

  /** Send a request. Without a connection it goes nowhere: `#greet` asks again for everything on the next one. */
  #ask(request: Request): void {
    if (this.#link.isOpen) this.#link.send(encodeRequest(request));
  }

  /** Start on a new connection: resume, and send all unanswered messages again. */
  #greet(): void {
    this.listening = false;
    this.#renewal?.begin();
    // The silence of a connection that was gone says nothing about the turn.
    this.#pingedMs = this.#heardMs = this.#clock.nowMs();
    this.#unheard = 0;
    this.#wakeDueMs = NEVER;
    this.#outbox.sayAllAgain();
    if (this.#joining) this.#askForNewest();
    if (this.#isKnown) this.#resume();
    if (this.#watches) this.#askToWatch();
  }
}

/** Return the error frame for a turn that has been silent for too long. */
function silent(conversation: string): ErrorFrame {
  const message = "the turn has sent nothing for longer than a turn may take";
  return errorFrame({ code: "turn_silent", message, conversation });
}
