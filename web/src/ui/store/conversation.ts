/**
 * One open conversation: its thread, its session with the server, its sent messages, and the draft.
 *
 * Effects of the session are collected, and folded into the thread once per frame; the first text of a lane is folded
 * at once. A conversation that is closed while messages are unanswered stays connected until their answers arrive.
 */

import type { EventPage, EventsQuery, UploadGrant, UploadRequest, UploadStatus } from "../../api/index.ts";
import {
  BEYOND_END,
  ClientError,
  type ClientState,
  type Credential,
  DELETED,
  type Dial,
  type Effect,
  type ErrorFrame,
  emptyState,
  type Failure,
  FRAME_MAX_BYTES,
  foldFrame,
  type LinkState,
  parseFrame,
  Session,
} from "../../client/index.ts";
import { emptyThread, foldEffects, prependPage, type Thread } from "../../thread/index.ts";
import type { Attachment, Message } from "../../thread/thread.ts";
import type { Problem } from "../acts.ts";
import { Attachments, type TakenFile } from "../attachments/attachments.ts";
import { type Edits, editedTexts, NO_PAST, type Past } from "../branches/past.ts";
import { ComposerModel } from "../composer/composer_model.ts";
import { lengthOf } from "../composer/rules.ts";
import { LIMIT_CODES } from "../limits/limit_codes.ts";
import { type Clock, type Frame, pause } from "./clock.ts";
import { Sending } from "./sending.ts";
import { ServerClock } from "./server_clock.ts";
import { Store } from "./store.ts";

const PAGE_TURNS = 20;
const RELOAD_MS = [2_000, 4_000, 8_000, 16_000] as const;
const RATE_AGAIN_MS = 3_000;
/** A shorter break is not reported. */
const NOTICED_MS = 3_000;
/** The server no longer has the files of a message. */
const UPLOADS_GONE: ReadonlySet<string> = new Set([
  "attachment_missing",
  "attachment_rejected",
  "bad_attachment",
  "upload_expired",
  "upload_missing",
]);

/** A message refused with one of these codes returns to the composer instead of being sent again unchanged. */
const TOO_MUCH: ReadonlySet<string> = new Set([
  "batch_too_large",
  "input_too_long",
  "message_size_limit",
  "message_too_large",
  "payload_too_large",
  "too_many_attachments",
]);

export interface ConversationState {
  readonly phase: "new" | "loading" | "ready" | "missing" | "deleted" | "failed";
  readonly thread: Thread;
  /** A turn is open. */
  readonly running: boolean;
  /** A stop was sent, and the turn has not ended. */
  readonly stopping: boolean;
  readonly link: LinkState;
  readonly outbox: readonly Message[];
  readonly problems: ReadonlyMap<string, Problem>;
  readonly discarded: ReadonlySet<string>;
  /** Until when the server accepts no message, in epoch milliseconds. */
  readonly blockedUntil: number;
  readonly earlier: "none" | "some" | "loading";
  /** The number of turns that ended while the connection was lost; 0 once the user has seen it. */
  readonly meanwhile: number;
  /** The server uses a newer format. */
  readonly outdated: boolean;
  /** The first turn that was unread when the conversation was opened, "" for none. */
  readonly firstUnread: string;
  /** The server's last error that concerns no message: a code, and its sentence. */
  readonly alert: { readonly code: string; readonly message: string } | null;
}

export interface ConversationApi {
  readEvents(conversation: string, query: EventsQuery): Promise<EventPage>;
  beginUpload(conversation: string, request: UploadRequest): Promise<UploadGrant>;
  getUpload(conversation: string, upload: string): Promise<UploadStatus>;
}

/** The dependencies of a conversation: browser and server. */
export interface Services {
  readonly api: ConversationApi;
  readonly dial: Dial;
  readonly credential: Credential;
  readonly clock: Clock;
  readonly frame: Frame;
  readonly timezone: string;
  measure(file: File): Promise<string>;
  post(grant: UploadGrant, file: File, signal: AbortSignal, progress: (part: number) => void): Promise<void>;
  /** Return the first unread batch of a conversation, 0 for none. */
  unreadN(conversation: string): number;
  /** Called when a message was given to the session: a new conversation has begun. */
  said(conversation: string): void;
  /** Called when a turn has ended, or a limit has refused something: the limits must be read again. */
  usageChanged(): void;
  /** Called when a conversation was deleted. */
  gone(conversation: string): void;
  /** Called for a frame of the feed of all conversations. */
  onFeed(effect: Effect & { kind: "feedHeard" }): void;
}

export class Conversation {
  readonly name: string;
  readonly store: Store<ConversationState>;
  readonly composer: ComposerModel;
  readonly sending: Sending;
  readonly past: Store<Past> = new Store(NO_PAST);
  /** Messages that are being edited. */
  readonly edits: Store<Edits> = new Store(new Map());
  readonly serverClock: ServerClock;
  readonly #services: Services;
  #session: Session | null = null;
  #state: ClientState;
  #pending: Effect[] = [];
  #planned = false;
  /** Whether the conversation is on the screen. */
  #isShown = false;
  #firstN = 0;
  #reloads = 0;
  #loading: Promise<void> | null = null;
  #lostAt = 0;
  readonly #uploadedAgain = new WeakSet<File>();
  #endedMeanwhile: number | null = null;
  /** Functions to call when the open turn ends. */
  readonly #afterTurn: (() => void)[] = [];

  /** `fresh`: the page has created the name, so the server has nothing of it. */
  constructor(name: string, services: Services, fresh: boolean) {
    this.name = name;
    this.#services = services;
    this.#state = emptyState(name);
    this.serverClock = new ServerClock(services.clock);
    this.store = new Store(initialState(name, fresh ? "new" : "loading", services.clock.nowMs()));
    this.sending = new Sending(this.store, services.clock, this.serverClock);
    const attachments = new Attachments({
      clock: services.clock,
      measure: services.measure,
      post: services.post,
      begin: (request) => services.api.beginUpload(name, request),
      status: (upload) => services.api.getUpload(name, upload),
    });
    this.composer = new ComposerModel(attachments, (text, files) => this.say(text, files));
  }

  /** The number of the newest loaded batch. */
  get cursor(): number {
    return this.#state.cursor;
  }

  /** True if closing the page would lose something: a draft, or a message that is not in the log. */
  get holds(): boolean {
    return this.composer.holds || this.store.value.outbox.length > 0 || editedTexts(this.edits.value).length > 0;
  }

  /** The text that closing the page would lose. */
  get written(): string {
    const { outbox } = this.store.value;
    const texts = [...outbox.map((one) => one.text), ...editedTexts(this.edits.value), this.composer.draft.value.text];
    return texts.filter((text) => text.trim() !== "").join("\n\n");
  }

  /** True if it has no reason to stay connected. */
  get isIdle(): boolean {
    return this.#session === null;
  }

  /** Connect, and load the newest turns if they are missing. */
  show(): void {
    this.#isShown = true;
    if (this.#session) this.#session.watch();
    else if (this.store.value.phase === "loading" || this.store.value.phase === "failed") void this.load();
    else this.#connect();
  }

  /** Close the connection as soon as no answer is pending. */
  leave(): void {
    this.#isShown = false;
    this.#closeIfIdle();
  }

  /** Check the connection now: the machine was asleep, or is online again. */
  wake(): void {
    if (this.#session) this.#session.wake();
    else if (this.#isShown) this.show();
  }

  /**
   * Load the newest turns, one request at a time: a second result would overwrite events that arrived since the first.
   */
  load(): Promise<void> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #load(): Promise<void> {
    this.store.update({ phase: "loading" });
    try {
      const page = await this.#services.api.readEvents(this.name, { turns: PAGE_TURNS });
      this.#begin(page);
    } catch (error) {
      this.#loadFailed((error as { code?: string }).code ?? "");
    }
  }

  async loadEarlier(): Promise<void> {
    if (this.store.value.earlier !== "some") return;
    this.store.update({ earlier: "loading" });
    try {
      await this.#readEarlier();
    } catch {
      this.store.update({ earlier: "some" });
    }
  }

  async #readEarlier(): Promise<void> {
    const before = this.#firstN;
    const page = await this.#services.api.readEvents(this.name, { before, turns: PAGE_TURNS });
    // Another request for the same page was faster.
    if (before !== this.#firstN) return;
    this.#firstN = page.first_n ?? 0;
    const frames = (page.events ?? []).map(parseFrame).filter((frame) => frame?.frame === "events");
    const thread = prependPage(this.store.value.thread, frames);
    this.store.update({
      thread: { ...thread, turnsBefore: page.turns_before ?? 0 },
      earlier: page.more ? "some" : "none",
    });
  }

  /** Load every page of the past. Throws if one cannot be loaded. */
  async loadAll(): Promise<void> {
    try {
      while (this.store.value.earlier !== "none") {
        this.store.update({ earlier: "loading" });
        await this.#readEarlier();
      }
    } catch (error) {
      this.store.update({ earlier: "some" });
      throw error;
    }
  }

  /** Drop the content of a deleted conversation, wherever it was deleted. An unsent draft stays. */
  drop(): void {
    if (this.store.value.phase === "deleted") return;
    const { name, store } = this;
    store.update({ ...initialState(name, "deleted", 0), ...kept(store.value), thread: emptyThread(name) });
    this.#services.gone(name);
  }

  /** Also drop its unsent drafts. */
  forget(): void {
    this.composer.clear();
    this.edits.set(new Map());
    for (const { messageId } of this.store.value.outbox) this.sending.discard(messageId);
  }

  /** `kept` are files that the conversation has: they are named by their paths. */
  say(text: string, files: readonly TakenFile[] = [], kept: readonly Attachment[] = []): void {
    const uploads = [...kept.map((file) => file.path), ...files.map((file) => file.upload)];
    const messageId = this.#requireSession().say(text, { uploads });
    const added = files.map(({ name, mime, sizeBytes }) => ({ filename: name, mime, sizeBytes, path: "" }));
    const attachments = [...kept, ...added];
    const kind = this.store.value.running ? "followup" : "prompt";
    this.sending.note({ messageId, kind, text, attachments }, files);
    if (this.store.value.phase === "new") this.store.update({ phase: "ready" });
    this.store.update({ meanwhile: 0 });
    this.#services.said(this.name);
  }

  /** Send the text and the files of an earlier message again, under a new id. */
  sendAgain(message: Message): void {
    const { messageId, text } = message;
    const code = this.store.value.problems.get(messageId)?.code ?? "";
    if (UPLOADS_GONE.has(code) && this.#uploadAgain(messageId)) return;
    const files = this.sending.filesOf(messageId);
    if (lengthOf(text).part > 1) {
      this.#sendAsFile(message, files);
      return;
    }
    this.sending.discard(messageId);
    this.say(
      text,
      files,
      message.attachments.filter((file) => file.path),
    );
  }

  steer(text: string): void {
    const messageId = this.#requireSession().steer(text);
    this.sending.note({ messageId, kind: "steer", text, attachments: [] }, []);
  }

  stop(): void {
    if (!this.store.value.running || this.store.value.stopping) return;
    this.sending.noteStop(this.#requireSession().stop());
  }

  /** Decide whether a call may run; resolves to "", or to the code of the refusal. */
  answer(...given: Parameters<Session["answer"]>): Promise<string> {
    return this.#outcomeOf((session) => session.answer(...given));
  }

  /**
   * Rate a turn. A rating that comes too early is stored, `onKept` is called, and it is sent when the turn has ended.
   */
  async rate(turnId: string, reaction: "ok" | "not_ok" | null, text: string, onKept = () => {}): Promise<string> {
    for (;;) {
      const code = await this.#outcomeOf((session) => session.rate(reaction, text, { turn: turnId }));
      if (code !== "turn_open") return code;
      onKept();
      await this.#turnsEnd();
    }
  }

  /** Resolve when the open turn has ended; if none is open, after a delay, since the server may be slower. */
  #turnsEnd(): Promise<void> {
    if (!this.#state.open) return pause(this.#services.clock, RATE_AGAIN_MS);
    return new Promise((resolve) => this.#afterTurn.push(resolve));
  }

  /** Resolve to "" when the server has accepted the request, else to the code of the refusal. */
  async #outcomeOf(send: (session: Session) => string): Promise<string> {
    try {
      return await this.sending.outcomeOf(send(this.#requireSession()));
    } catch (error) {
      // A message that is too large is refused before it is sent.
      if (error instanceof ClientError) return error.code;
      throw error;
    }
  }

  discard(messageId: string): void {
    this.sending.discard(messageId);
  }

  /**
   * Send an earlier message that is longer than this page can send as text. Another client without that limit wrote it.
   */
  #sendAsFile(message: Message, files: readonly TakenFile[]): void {
    if (this.composer.holds) {
      this.store.update({ alert: { code: "message_too_large", message: "" } });
      return;
    }
    this.sending.discard(message.messageId);
    this.composer.write(message.text);
    this.composer.attachments.add(files.map((taken) => taken.file));
    this.composer.submit();
  }

  /**
   * Return a message with too much content, or one message too many, to the composer with the reason. If the composer
   * is in use, keep it in the thread.
   */
  #handBack({ message_id: messageId, code, message, retry_after_s: afterS }: ErrorFrame): void {
    const refused = this.store.value.outbox.find((one) => one.messageId === messageId);
    if (!refused || this.composer.holds) return;
    const files = this.sending.filesOf(messageId).map((taken) => taken.file);
    this.sending.discard(messageId);
    const untilMs = afterS > 0 ? this.#services.clock.nowMs() + afterS * 1000 : 0;
    this.composer.takeBack(refused.text, files, { code, message, untilMs });
  }

  /** Write a message again whose files must be uploaded again: it is sent when they are ready. */
  #uploadAgain(messageId: string): boolean {
    const message = this.store.value.outbox.find((one) => one.messageId === messageId);
    const files = this.sending.filesOf(messageId).map((taken) => taken.file);
    if (!message || files.length === 0 || this.composer.holds) return false;
    for (const file of files) this.#uploadedAgain.add(file);
    this.sending.discard(messageId);
    this.composer.write(message.text);
    this.composer.attachments.add(files);
    this.composer.submit();
    return true;
  }

  #begin(page: EventPage): void {
    const frames = (page.events ?? []).map(parseFrame).filter((frame) => frame !== null);
    const first = frames.find((frame) => frame.frame === "events");
    let state = emptyState(this.name, first?.prev ?? 0);
    const effects: Effect[] = [];
    for (const frame of frames) {
      const [next, found] = foldFrame(state, frame);
      state = next;
      effects.push(...found);
    }
    this.#state = state;
    this.#firstN = page.first_n ?? 0;
    const { origin = "", n = 0, branch_of: root } = page.fork ?? {};
    if (origin && !root) this.past.update({ origin: { conversation: origin, n } });
    this.#reloads = 0;
    const before = { ...emptyThread(this.name), turnsBefore: page.turns_before ?? 0 };
    const thread = foldEffects(before, effects);
    const unreadN = this.#services.unreadN(this.name);
    this.store.update({
      phase: "ready",
      thread,
      firstUnread: unreadN ? (thread.turns.find((turn) => turn.closedN >= unreadN)?.turnId ?? "") : "",
      running: state.open,
      earlier: page.more ? "some" : "none",
    });
    if (this.#isShown) this.#connect();
  }

  #loadFailed(code: string): void {
    if (code === DELETED) {
      this.drop();
      if (this.#isShown) this.#connect();
      return;
    }
    if (code === "not_found") {
      this.store.update({ phase: "missing" });
      if (this.#isShown) this.#connect();
      return;
    }
    this.store.update({ phase: "failed", outdated: code === "format_newer" });
    if (code === "format_newer") return;
    const pauseMs = RELOAD_MS[Math.min(this.#reloads, RELOAD_MS.length - 1)] ?? 0;
    this.#reloads += 1;
    this.#services.clock.after(pauseMs, () => {
      if (this.#isShown && this.store.value.phase === "failed") void this.load();
    });
  }

  #connect(): void {
    if (this.#session) return;
    const { dial, credential, clock, timezone } = this.#services;
    const session = new Session({
      dial,
      credential,
      clock,
      timezone,
      state: this.#state,
      maxBytes: FRAME_MAX_BYTES,
      onEffects: (effects, state) => this.#take(effects, state),
      onLink: (link) => this.#noteLink(link),
      onFailure: (failure) => this.#noteFailure(failure),
    });
    this.#session = session;
    session.start();
    if (this.#state.cursor > 0) session.listen();
    session.watch();
  }

  #requireSession(): Session {
    this.#connect();
    return this.#session as Session;
  }

  #closeIfIdle(): void {
    if (this.#isShown || !this.#session || this.composer.draft.value.waits) return;
    if (this.#session.state.unacked.size > 0) return;
    this.#state = this.#session.state;
    this.#session.close();
    this.#session = null;
  }

  #take(effects: readonly Effect[], state: ClientState): void {
    this.#state = state;
    this.#pending.push(...effects);
    if (effects.some((effect) => this.#isFirst(effect))) {
      this.#draw();
      return;
    }
    if (this.#planned) return;
    this.#planned = true;
    this.#services.frame(() => this.#draw());
  }

  /** Return true for the first text of a lane: the user waits for it, so it does not wait for the next frame. */
  #isFirst(effect: Effect): boolean {
    const { stream } = this.store.value.thread;
    if (effect.kind !== "textAppended") return false;
    return stream?.claim !== effect.claim || !stream.lanes.get(effect.lane)?.text;
  }

  #draw(): void {
    this.#planned = false;
    const effects = this.#pending;
    if (effects.length === 0) return;
    this.#pending = [];
    for (const effect of effects) this.#note(effect);
    if (this.store.value.phase === "deleted") {
      this.#closeIfIdle();
      return;
    }
    const thread = foldEffects(this.store.value.thread, effects);
    const running = this.#state.open;
    this.store.update({ thread, running, stopping: running && this.store.value.stopping });
    this.#closeIfIdle();
  }

  #note(effect: Effect): void {
    this.sending.apply(effect);
    switch (effect.kind) {
      case "feedHeard":
        if (this.#isShown) this.#services.onFeed(effect);
        return;
      case "eventsApplied":
        if (this.#endedMeanwhile === null) this.serverClock.apply(effect.events);
        return;
      case "turnEnded":
        if (this.#endedMeanwhile !== null) this.#endedMeanwhile += 1;
        for (const run of this.#afterTurn.splice(0)) run();
        this.#services.usageChanged();
        return;
      case "synced":
        if (this.#endedMeanwhile) this.store.update({ meanwhile: this.#endedMeanwhile });
        this.#endedMeanwhile = null;
        this.store.update({ alert: null });
        return;
      case "refused":
        this.#noteRefusal(effect.frame);
        return;
      default:
        return;
    }
  }

  #noteRefusal(frame: ErrorFrame): void {
    const { message_id: messageId, code, message } = frame;
    if (LIMIT_CODES.has(code)) this.#services.usageChanged();
    if (code === DELETED) {
      this.#handBack(frame);
      this.drop();
    } else if (TOO_MUCH.has(code) || LIMIT_CODES.has(code)) this.#handBack(frame);
    else if (messageId) {
      const files = this.sending.filesOf(messageId);
      // Retry once automatically; then the user decides.
      if (UPLOADS_GONE.has(code) && !files.some(({ file }) => this.#uploadedAgain.has(file)))
        this.#uploadAgain(messageId);
    } else if (code === "not_found" && this.store.value.thread.turns.length === 0) {
      this.store.update({ phase: "missing" });
    } else if (code === BEYOND_END) {
      // The session restarts automatically, and the thread with it: no event arrives before that.
      this.#firstN = 0;
      this.store.update({ earlier: "none" });
    } else {
      this.store.update({ alert: { code, message } });
    }
  }

  #noteLink(link: LinkState): void {
    const before = this.store.value.link;
    if (link.is === "lost" && before.is !== "lost" && before.is !== "connecting") this.#lostAt = link.sinceMs;
    if (link.is === "open") {
      const gone = this.#lostAt > 0 && this.#services.clock.nowMs() - this.#lostAt >= NOTICED_MS;
      this.#endedMeanwhile = gone ? 0 : null;
      this.#lostAt = 0;
    }
    this.store.update({ link });
  }

  #noteFailure(failure: Failure): void {
    // The link reports a refused connection; the session reopens a broken one.
    if (failure.code === "format_newer") this.store.update({ outdated: true });
  }
}

/** The remaining state of a deleted conversation: its connection, and messages that were not accepted. */
function kept({ link, outbox, problems, discarded }: ConversationState): Partial<ConversationState> {
  return { link, outbox, problems, discarded };
}

function initialState(name: string, phase: "new" | "loading" | "deleted", nowMs: number): ConversationState {
  return {
    phase,
    thread: emptyThread(name),
    running: false,
    stopping: false,
    link: { is: "connecting", sinceMs: nowMs },
    outbox: [],
    problems: new Map(),
    discarded: new Set(),
    blockedUntil: 0,
    earlier: "none",
    meanwhile: 0,
    outdated: false,
    firstUnread: "",
    alert: null,
  };
}
