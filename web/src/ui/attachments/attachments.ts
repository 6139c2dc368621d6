/**
 * The files of one message, from hashing and uploading to a verdict.
 *
 * Four upload at a time; identical bytes are uploaded once. The browser's part (hash, form, progress) is passed as
 * `Ports`.
 */

import type { ApiError, UploadGrant, UploadRequest, UploadStatus } from "../../api/index.ts";
import { type Clock, pause } from "../store/clock.ts";
import { Store } from "../store/store.ts";

export const MAX_FILES = 20;
export const MAX_BYTES = 26_214_400;
const AT_ONCE = 4;
/** Pauses between two checks of a verdict; the last one repeats. */
const POLLS_MS = [200, 300, 500, 1000, 2000] as const;
const VERDICT_MS = 180_000;

export type FileState = "queued" | "hashing" | "uploading" | "checking" | "ready" | "refused" | "expired";

/** A file of the message. `code` is the reason why it is refused or expired, `message` the server's sentence. */
export interface PendingFile {
  readonly id: number;
  readonly name: string;
  readonly mime: string;
  readonly sizeBytes: number;
  readonly state: FileState;
  /** The uploaded share, from 0 to 1. */
  readonly progress: number;
  readonly upload: string;
  readonly code: string;
  readonly reasons: readonly string[];
  readonly message: string;
}

/** A file that is sent with a message. The browser's file is kept, since it may have to be uploaded again. */
export interface TakenFile extends PendingFile {
  readonly file: File;
}

export interface Files {
  readonly items: readonly PendingFile[];
  /** The problem with files that were not added to the list. */
  readonly notice:
    | { readonly is: "" }
    | { readonly is: "too_many"; readonly left: number }
    | { readonly is: "same"; readonly name: string; readonly as: string };
}

export const NO_FILES: Files = { items: [], notice: { is: "" } };

export interface Ports {
  /** Return the hash of a file. */
  measure(file: File): Promise<string>;
  begin(request: UploadRequest): Promise<UploadGrant>;
  /** Post the form; rejects if the store refuses it. */
  post(grant: UploadGrant, file: File, signal: AbortSignal, progress: (part: number) => void): Promise<void>;
  status(upload: string): Promise<UploadStatus>;
  clock: Clock;
}

/** The reason why an upload ended without an accepting verdict. */
class Stopped extends Error {
  constructor(
    readonly state: "refused" | "expired",
    readonly code: string,
    message: string,
    readonly reasons: readonly string[] = [],
  ) {
    super(message);
  }
}

/** Manages the files of a message that is being written; `store` has the state to render. */
export class Attachments {
  readonly store = new Store<Files>(NO_FILES);
  readonly #ports: Ports;
  readonly #files = new Map<number, File>();
  readonly #hashes = new Map<number, string>();
  readonly #aborts = new Map<number, AbortController>();
  #nextId = 1;
  #running = 0;

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  get items(): readonly PendingFile[] {
    return this.store.value.items;
  }

  /** Add files to the message, up to the maximum. */
  add(files: readonly File[]): void {
    const room = MAX_FILES - this.items.length;
    const taken = files.slice(0, Math.max(room, 0)).map((file) => this.#queue(file));
    const left = files.length - taken.length;
    this.store.set({
      items: [...this.items, ...taken],
      notice: left > 0 ? { is: "too_many", left } : { is: "" },
    });
    this.#start();
  }

  remove(id: number): void {
    this.#aborts.get(id)?.abort();
    this.#forget(id);
    this.store.set({ items: this.items.filter((item) => item.id !== id), notice: { is: "" } });
  }

  /** Upload a refused or expired file again. */
  retry(id: number): void {
    this.#change(id, { state: "queued", progress: 0, upload: "", code: "", reasons: [], message: "" });
    this.#start();
  }

  /** Remove the ready files from the message and return them; refused files are removed, too. */
  take(): readonly TakenFile[] {
    const ready = this.items.flatMap((item) => {
      const file = this.#files.get(item.id);
      return file && item.state === "ready" ? [{ ...item, file }] : [];
    });
    for (const item of this.items) {
      this.#aborts.get(item.id)?.abort();
      this.#forget(item.id);
    }
    this.store.set(NO_FILES);
    return ready;
  }

  #queue(file: File): PendingFile {
    const id = this.#nextId++;
    this.#files.set(id, file);
    const item = { id, name: file.name, mime: file.type, sizeBytes: file.size, progress: 0, upload: "", reasons: [] };
    if (file.size > MAX_BYTES) return { ...item, state: "refused", code: "size_limit", message: "" };
    return { ...item, state: "queued", code: "", message: "" };
  }

  #start(): void {
    for (const item of this.items) {
      if (this.#running >= AT_ONCE) return;
      if (item.state !== "queued") continue;
      this.#running += 1;
      this.#change(item.id, { state: "hashing" });
      void this.#carry(item).finally(() => {
        this.#running -= 1;
        this.#start();
      });
    }
  }

  async #carry(item: PendingFile): Promise<void> {
    const file = this.#files.get(item.id);
    if (!file) return;
    const abort = new AbortController();
    this.#aborts.set(item.id, abort);
    try {
      const sha256 = await this.#ports.measure(file);
      if (abort.signal.aborted || this.#isSame(item, sha256)) return;
      const upload = await this.#upload(item, file, sha256, abort.signal);
      this.#change(item.id, { state: "ready", progress: 1, upload });
    } catch (error) {
      if (!abort.signal.aborted) this.#change(item.id, explain(error));
    }
  }

  /** True if another file of the message has the same bytes: this one is dropped then. */
  #isSame(item: PendingFile, sha256: string): boolean {
    const twin = this.items.find((other) => other.id !== item.id && this.#hashes.get(other.id) === sha256);
    if (!twin) {
      this.#hashes.set(item.id, sha256);
      return false;
    }
    this.remove(item.id);
    this.store.update({ notice: { is: "same", name: item.name, as: twin.name } });
    return true;
  }

  async #upload(item: PendingFile, file: File, sha256: string, signal: AbortSignal): Promise<string> {
    // Send no type: browsers report a CSV as a spreadsheet and TypeScript as a video, so the server uses name and
    // bytes.
    const request = { filename: item.name, size_bytes: item.sizeBytes, sha256 };
    const grant = await this.#ports.begin(request);
    if (signal.aborted) return "";
    this.#change(item.id, { state: "uploading" });
    await this.#ports.post(grant, file, signal, (progress) => this.#change(item.id, { progress }));
    this.#change(item.id, { state: "checking", progress: 1 });
    await this.#awaitVerdict(grant.upload, signal);
    return grant.upload;
  }

  async #awaitVerdict(upload: string, signal: AbortSignal): Promise<void> {
    const { clock, status } = this.#ports;
    const until = clock.nowMs() + VERDICT_MS;
    for (let look = 0; !signal.aborted; look += 1) {
      const verdict = await status(upload);
      if (verdict.state === "ready") return;
      if (verdict.state === "refused") {
        const { reason = "preflight_rejected", message = "", reasons = [] } = verdict;
        throw new Stopped(reason === "upload_expired" ? "expired" : "refused", reason, message, reasons);
      }
      if (clock.nowMs() >= until) throw new Stopped("expired", "upload_pending", "");
      await pause(clock, POLLS_MS[look] ?? POLLS_MS[POLLS_MS.length - 1] ?? 0);
    }
  }

  #change(id: number, change: Partial<PendingFile>): void {
    if (!this.#files.has(id)) return;
    const items = this.items.map((item) => (item.id === id ? { ...item, ...change } : item));
    this.store.update({ items });
  }

  #forget(id: number): void {
    this.#files.delete(id);
    this.#hashes.delete(id);
    this.#aborts.delete(id);
  }
}

function explain(error: unknown): Partial<PendingFile> {
  if (error instanceof Stopped) {
    return { state: error.state, code: error.code, message: error.message, reasons: error.reasons };
  }
  const { code = "api_unreachable", detail = "" } = error as Partial<ApiError>;
  return { state: code === "upload_expired" ? "expired" : "refused", code, message: detail };
}

/** Return the files that were refused, or whose upload has expired. */
export function refusedOf(items: readonly PendingFile[]): readonly PendingFile[] {
  return items.filter((item) => item.state === "refused" || item.state === "expired");
}
