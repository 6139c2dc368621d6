/** The words in which two texts differ. Pure; the only module that uses the diff library. */

import { type ChangeObject, diffLines, diffWordsWithSpace } from "diff";

export interface Words {
  readonly is: "same" | "added" | "removed";
  readonly text: string;
}

/** The maximum number of changed words. Above it, lines are compared; above as many changed lines, the whole texts. */
const MOST_EDITS = 1_500;
/** The number of characters shown on each side of a change in a longer common text. */
const CONTEXT_CHARS = 160;

/** Return the changes from an older text to a newer one. */
export function diffWords(older: string, newer: string): readonly Words[] {
  const most = { maxEditLength: MOST_EDITS };
  const found = diffWordsWithSpace(older, newer, most) ?? diffLines(older, newer, most);
  if (found) return found.map(wordsOf);
  const whole: Words[] = [
    { is: "removed", text: older },
    { is: "added", text: newer },
  ];
  return whole.filter((one) => one.text);
}

function wordsOf(change: ChangeObject<string>): Words {
  return { is: change.added ? "added" : change.removed ? "removed" : "same", text: change.value };
}

/** Return the words, with long common texts cut to their ends. */
export function nearChanges(all: readonly Words[]): readonly Words[] {
  return all.map((one, at) => {
    if (one.is !== "same" || one.text.length <= 2 * CONTEXT_CHARS + 1) return one;
    const head = at === 0 ? "" : one.text.slice(0, CONTEXT_CHARS);
    const tail = at === all.length - 1 ? "" : one.text.slice(-CONTEXT_CHARS);
    return { is: "same", text: `${head} … ${tail}` };
  });
}
