/**
 * The message that is being written in one conversation, with its files. It is kept in memory only.
 *
 * A message with files that are still under way waits for them, and goes out by itself.
 */

import { shell } from "../../words/en/shell.ts";
import { type Attachments, type PendingFile, refusedOf, type TakenFile } from "../attachments/attachments.ts";
import { Store } from "../store/store.ts";
import { lengthOf } from "./rules.ts";

const LONG_TEXT = "message.txt";
/** How much of a long text the message itself says. */
const BEGINNING_CHARS = 1_000;

export interface Draft {
  readonly text: string;
  /** It was sent, and goes out when its files are ready. */
  readonly waits: boolean;
  /** Refused files for which it was held back once, by their ids: the next press sends it without them. */
  readonly heldFor: readonly number[];
  /** Why the server gave it back, null if it did not. */
  readonly refusal: Refusal | null;
}

/** A code, the server's own sentence with the limit, and until when it holds: epoch milliseconds, 0 if no time ends it. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly untilMs: number;
}

const EMPTY: Draft = { text: "", waits: false, heldFor: [], refusal: null };

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
    this.draft.update({ text, refusal: null });
  }

  /** Take a message back that the server refused for what it is, to be written on. */
  takeBack(text: string, files: readonly File[], refusal: Refusal): void {
    this.attachments.add(files);
    this.draft.set({ ...EMPTY, text, refusal });
  }

  /** Refused files for which the message was held back, as long as it has them. */
  get held(): readonly PendingFile[] {
    return refusedOf(this.attachments.items).filter((file) => this.draft.value.heldFor.includes(file.id));
  }

  /**
   * Send what is written, now or when its files are ready. A long text becomes a file of its own.
   *
   * A refused file holds it back once, so that the user does not believe it was sent.
   */
  submit(): void {
    const { text } = this.draft.value;
    const { items } = this.attachments;
    const refused = refusedOf(items);
    if (text.trim() === "" && items.length === 0) return;
    if (refused.length > this.held.length || (text.trim() === "" && refused.length === items.length)) {
      this.#hold();
      return;
    }
    this.draft.update({ waits: true });
    if (lengthOf(text).part > 1) {
      this.attachments.add([new File([text], LONG_TEXT, { type: "text/plain" })]);
      this.#longText = this.attachments.items.at(-1)?.id ?? 0;
    }
    this.#goOn();
  }

  /** Take a waiting message back, to be written on. */
  edit(): void {
    this.#takeBack();
  }

  clear(): void {
    this.draft.set(EMPTY);
  }

  #hold(): void {
    this.draft.update({ heldFor: refusedOf(this.attachments.items).map((file) => file.id) });
  }

  #takeBack(): void {
    this.draft.update({ waits: false });
    const longText = this.#longText;
    this.#longText = 0;
    if (longText) this.attachments.remove(longText);
  }

  #goOn(): void {
    if (!this.draft.value.waits) return;
    const { items } = this.attachments;
    const refused = refusedOf(items);
    if (refused.length > this.held.length) {
      this.#hold();
      const text = refused.find((file) => file.id === this.#longText);
      this.#takeBack();
      if (text)
        this.draft.update({ refusal: { code: text.reasons[0] ?? text.code, message: text.message, untilMs: 0 } });
      return;
    }
    if (items.some((item) => item.state !== "ready" && !refused.includes(item))) return;
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
