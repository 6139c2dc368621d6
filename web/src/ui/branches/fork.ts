/** Forks a conversation: another one begins with what it had at a point. */

import { branchWords as words } from "../../words/en/branches.ts";
import { threadOf } from "../route.ts";
import type { Page } from "../store/page.ts";

/** The end of a turn, or of the round that batch `decidedN` decided. Turns and rounds count from 1. */
export type ForkPlace =
  | { readonly turnId: string; readonly number: number }
  | { readonly decidedN: number; readonly number: number; readonly round: number };

/** Ask whether to fork a conversation, and show the fork after confirmation. */
export function askToFork(page: Page, conversation: string, place: ForkPlace): void {
  // A repeated request finds the same fork.
  const name = page.nameNew();
  page.question.set({
    title: words.fork,
    text: "round" in place ? words.forkRoundText(place.number, place.round) : words.forkText(place.number),
    act: words.forkAct,
    word: "",
    calm: true,
    busy: words.forking,
    failed: words.forkFailed,
    run: async () => {
      const kind = "round" in place ? "round" : "turn";
      const at = "round" in place ? String(place.decidedN) : place.turnId;
      await page.api.makeFork(conversation, { conversation: name, point: { kind, at } });
      page.go(threadOf(name));
    },
  });
}
