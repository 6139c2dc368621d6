/**
 * The message that is being written in one conversation, with its files. It is kept in memory only.
 *
 * A message with files that are still under way waits for them, and goes out by itself.
 */

import { shell } from "../../words/en/shell.ts";
import type { Attachments, TakenFile } from "../attachments/attachments.ts";
import { readiness } from "../attachments/attachments.ts";
import { Store } from "../store/store.ts";
import { lengthOf } from "./rules.ts";

const LONG_TEXT = "message.txt";
/** How much of a long text the message itself says. */
const BEGINNING_CHARS = 1_000;

export interface Draft {
  readonly text: string;
  /** It was sent, and goes out when its files are ready. */
  readonly waits: boolean;
  /** Files hold it back for good: one was refused after it was sent. */
  readonly stuck: boolean;
  /** Why the server gave it back, null if it did not. */
  readonly refusal: Refusal | null;
}

/** A code, the server's own sentence with the limit, and until when it holds: epoch milliseconds, 0 if no time ends it. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly untilMs: number;
}

const EMPTY: Draft = { text: "", waits: false, stuck: false, refusal: null };

/** Sends a message with its files. */
export type SendMessage = (text: string, files: readonly TakenFile[]) => void;

export class ComposerModel {
  readonly draft = new Store(EMPTY);
  readonly attachments: Attachments;
  readonly #send: SendMessage;
  /** The file that stands for a text that is too long. */
  #longText = 0;

  constructor(attachments: Attachments, send: SendMessage) {
    this.attachments = attachments;
    this.#send = send;
    attachments.store.subscribe(() => this.#goOn());
  }

  /** True if something would be lost with the page. */
  get holds(): boolean {
    return this.draft.value.text.trim() !== "" || this.attachments.items.length > 0;
  }

  write(text: string): void {
    this.draft.update({ text, stuck: false, refusal: null });
  }

  /** Take a message back that the server refused for what it is, to be written on. */
  takeBack(text: string, files: readonly File[], refusal: Refusal): void {
    this.attachments.add(files);
    this.draft.set({ ...EMPTY, text, refusal });
  }

  /** Send what is written, now or when its files are ready. A long text becomes a file of its own. */
  submit(): void {
    const { text } = this.draft.value;
    if (text.trim() === "" && this.attachments.items.length === 0) return;
    this.draft.update({ waits: true, stuck: false });
    if (lengthOf(text).part > 1) {
      this.attachments.add([new File([text], LONG_TEXT, { type: "text/plain" })]);
      this.#longText = this.attachments.items.at(-1)?.id ?? 0;
    }
    this.#goOn();
  }

  /** Take a waiting message back, to be written on. */
  edit(): void {
    this.#takeBack(false);
  }

  clear(): void {
    this.draft.set(EMPTY);
  }

  #takeBack(stuck: boolean): void {
    this.draft.update({ waits: false, stuck });
    const longText = this.#longText;
    this.#longText = 0;
    if (longText) this.attachments.remove(longText);
  }

  #goOn(): void {
    if (!this.draft.value.waits) return;
    const state = readiness(this.attachments.items);
    if (state === "waiting") return;
    if (state === "refused") {
      this.#takeBack(true);
      return;
    }
    const { text } = this.draft.value;
    const said = this.#longText ? beginningOf(text) : text.trim() === "" ? shell.composer.filesOnly : text;
    this.#longText = 0;
    this.clear();
    this.#send(said, this.attachments.take());
  }
}

function beginningOf(text: string): string {
  const beginning = Array.from(text.slice(0, 2 * BEGINNING_CHARS)).slice(0, BEGINNING_CHARS);
  return `${beginning.join("")}…\n\n${shell.composer.rest(LONG_TEXT)}`;
}
