/** A question before an irreversible action. */

export interface Question {
  readonly title: string;
  readonly text: string;
  /** The label of the button that confirms it. */
  readonly act: string;
  /** The text to type first, "" for none. */
  readonly word: string;
  /** Perform the action. Rejects with the refusal's `code`. */
  run(): Promise<void>;
}
