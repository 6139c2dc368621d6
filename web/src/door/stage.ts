/** The connection of a door to one conversation of a stage: the HTTP API, websockets, and files. */

import { credentialOf, dialBrowser } from "../api/dial.ts";
import { type FileLink, type FileList, HttpApi } from "../api/index.ts";
import {
  ClientError,
  type ClientState,
  type Clock,
  type Credential,
  type Dial,
  type Effect,
  emptyState,
  type Failure,
  type Frame,
  foldFrames,
  parseFrame,
  readExpiry,
  Session,
} from "../client/index.ts";
import { uploadFile } from "./upload.ts";

export interface StageOptions {
  /** The address of the HTTP API. */
  readonly url: string;
  /** The user's token, or a function that returns a fresh one. It is called for each request and connection. */
  readonly token: string | (() => string | Promise<string>);
  readonly conversation: string;
  /** One of several bundles of the stage. */
  readonly bundle?: string;
  /** The user's time zone; the one of this machine by default. */
  readonly timezone?: string;
}

/** The events of a conversation: the state after them, and their effects. */
export interface Past {
  readonly state: ClientState;
  readonly effects: readonly Effect[];
}

const CLOCK: Clock = {
  nowMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export class Stage {
  readonly conversation: string;
  readonly bundle: string;
  readonly timezone: string;
  readonly dial: Dial;
  readonly credential: Credential;
  readonly clock = CLOCK;
  readonly #api: HttpApi;
  #expiresAtS = Number.POSITIVE_INFINITY;

  constructor({ url, token, conversation, bundle = "", timezone = "" }: StageOptions) {
    this.conversation = conversation;
    this.bundle = bundle;
    this.timezone = timezone || Intl.DateTimeFormat().resolvedOptions().timeZone;
    this.#api = new HttpApi(url, async () => {
      const fresh = typeof token === "string" ? token : await token();
      this.#expiresAtS = readExpiry(fresh);
      return fresh;
    });
    this.dial = dialBrowser(this.#api, "");
    this.credential = credentialOf(this.#api, () => this.#expiresAtS);
  }

  /**
   * Read the newest turns; `null` if the conversation does not exist. Throws ApiError.
   *
   * The first of them is complete: a page that begins within a turn is extended by the page before.
   */
  async readTurns(turns: number, signal?: AbortSignal): Promise<Past | null> {
    const call = signal ? { signal } : {};
    let frames: Frame[] = [];
    let before = 0;
    try {
      do {
        const page = await this.#api.readEvents(this.conversation, { turns, ...(before && { before }) }, call);
        const read = (page.events ?? []).map(parseFrame).filter((frame) => frame !== null);
        frames = [...read, ...frames];
        before = page.more ? (page.first_n ?? 0) : 0;
      } while (before > 0 && !frames.some(opensTurn));
    } catch (error) {
      if ((error as { code?: string }).code === "not_found") return null;
      throw error;
    }
    const [first] = frames;
    const cursor = first?.frame === "events" ? first.prev : 0;
    const [state, effects] = foldFrames(emptyState(this.conversation, cursor), frames);
    return { state, effects };
  }

  /** Send one message, and resolve when it is in the log. Throws ClientError with the code of a refusal. */
  send(message: (session: Session) => string): Promise<void> {
    return new Promise((resolve, reject) => {
      let sent = "";
      const end = (failure?: Failure) => {
        session.close();
        if (failure) reject(new ClientError(failure.code, failure.message));
        else resolve();
      };
      const session = new Session({
        dial: this.dial,
        clock: this.clock,
        state: emptyState(this.conversation),
        timezone: this.timezone,
        bundle: this.bundle,
        onEffects(effects) {
          for (const effect of effects) {
            if (effect.kind !== "acknowledged" && effect.kind !== "refused") continue;
            if (effect.frame.message_id === sent) end(effect.kind === "refused" ? effect.frame : undefined);
          }
        },
        onLink: () => undefined,
        onFailure: end,
      });
      session.start();
      sent = message(session);
    });
  }

  /** Ask whether the stage accepts the token. Throws ApiError. */
  async signIn(): Promise<void> {
    await this.#api.readLimits();
  }

  /** List the files of the conversation, newest turn first. Throws ApiError. */
  files(after = ""): Promise<FileList> {
    return this.#api.listFiles(this.conversation, after ? { after } : {});
  }

  /** Upload a file and return the id that a message names. Throws ApiError, ClientError. */
  upload(file: Blob, filename: string): Promise<string> {
    return uploadFile(this.#api, this.clock, this.conversation, file, filename);
  }

  /** Return an address of a file of the conversation, valid for some minutes. Throws ApiError. */
  link(path: string): Promise<FileLink> {
    return this.#api.createLink(this.conversation, { path, disposition: "preview" });
  }
}

/** Return the batch that a client's metadata names. Throws ClientError `bad_offset`. */
export function checkPosition(n: unknown): number {
  if (typeof n === "number" && Number.isSafeInteger(n) && n >= 0) return n;
  throw new ClientError("bad_offset", "the metadata has no position in the conversation");
}

/** Return the newest known batch after a session has read up to `cursor`; it is 0 if the conversation was replaced. */
export function movePosition(n: number, cursor: number): number {
  return cursor > 0 ? Math.max(n, cursor) : 0;
}

function opensTurn(frame: Frame): boolean {
  return frame.frame === "events" && (frame.parts > 1 || frame.events.some((event) => event.type === "chat.start"));
}
