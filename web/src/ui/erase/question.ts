/** A question before something that cannot be undone. */

export interface Question {
  readonly title: string;
  readonly text: string;
  /** The word of the button that does it. */
  readonly act: string;
  /** What has to be typed before, "" for nothing. */
  readonly word: string;
  /** Do it. Rejects with the refusal's `code`. */
  run(): Promise<void>;
}
