/** A question before an action that is irreversible, or that begins something new. */

export interface Question {
  readonly title: string;
  readonly text: string;
  /** The label of the button that confirms it. */
  readonly act: string;
  /** The text to type first, "" for none. */
  readonly word: string;
  /** It destroys nothing. */
  readonly calm?: boolean;
  /** Lines below the text. */
  readonly list?: readonly string[];
  /** The text of the button while it runs, and of a refusal without a sentence; by default those of a deletion. */
  readonly busy?: string;
  readonly failed?: string;
  /** Perform the action. Rejects with the refusal's `code`. */
  run(): Promise<void>;
  /** A second way to confirm it. */
  readonly other?: { readonly act: string; run(): Promise<void> };
}
