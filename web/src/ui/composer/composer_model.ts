/**
 * The message that is being written in one conversation, with its files. It is kept in memory only.
 *
 * A message whose files are still uploading waits for them, and is then sent automatically.
 */

import { shell } from "../../words/en/shell.ts";
import { type Attachments, type PendingFile, refusedOf, type TakenFile } from "../attachments/attachments.ts";
import { Store } from "../store/store.ts";
import { lengthOf } from "./rules.ts";

const LONG_TEXT = "message.txt";
/** The length of the excerpt of a long text in the message itself. */
const BEGINNING_CHARS = 1_000;

export interface Draft {
  readonly text: string;
  /** The user has sent it; it goes out when its files are ready. */
  readonly waits: boolean;
  /** The ids of refused files for which it was held back once. The next press sends it without them. */
  readonly heldFor: readonly number[];
  /** The reason why the server returned it, or null. */
  readonly refusal: Refusal | null;
}

/**
 * A code, the server's own sentence with the limit, and its end: epoch milliseconds, 0 if it does not end on its own.
 */
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
  /** The file that replaces a text that is too long. */
  #longText = 0;

  constructor(attachments: Attachments, send: SendMessage) {
    this.attachments = attachments;
    this.#send = send;
    attachments.store.subscribe(() => this.#goOn());
  }

  /** True if closing the page would lose something. */
  get holds(): boolean {
    return this.draft.value.text.trim() !== "" || this.attachments.items.length > 0;
  }

  write(text: string): void {
    this.draft.update({ text, refusal: null });
  }

  /** Put a refused message back into the composer for editing. */
  takeBack(text: string, files: readonly File[], refusal: Refusal): void {
    this.attachments.add(files);
    this.draft.set({ ...EMPTY, text, refusal });
  }

  /** The refused files for which the message was held back, while it still has them. */
  get held(): readonly PendingFile[] {
    return refusedOf(this.attachments.items).filter((file) => this.draft.value.heldFor.includes(file.id));
  }

  /**
   * Send the draft, now or when its files are ready. A long text becomes a separate file.
   *
   * A refused file holds the message back once, so that the user notices it.
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

  /** Put a waiting message back into the composer for editing. */
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
