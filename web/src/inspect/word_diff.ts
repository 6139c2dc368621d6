/** The words that two texts have not in common. Pure; the only place that knows the diff library. */

import { type ChangeObject, diffLines, diffWordsWithSpace } from "diff";

export interface Words {
  readonly is: "same" | "added" | "removed";
  readonly text: string;
}

/** Beyond so many changed words their lines are compared, and beyond so many of these the texts as wholes. */
const MOST_EDITS = 1_500;
/** Words on each side of a change that are shown of a longer text in common. */
const CONTEXT_CHARS = 160;

/** Return how an older text became a newer one. */
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

/** Return the words with long texts in common cut to their ends. */
export function nearChanges(all: readonly Words[]): readonly Words[] {
  return all.map((one, at) => {
    if (one.is !== "same" || one.text.length <= 2 * CONTEXT_CHARS + 1) return one;
    const head = at === 0 ? "" : one.text.slice(0, CONTEXT_CHARS);
    const tail = at === all.length - 1 ? "" : one.text.slice(-CONTEXT_CHARS);
    return { is: "same", text: `${head} … ${tail}` };
  });
}
