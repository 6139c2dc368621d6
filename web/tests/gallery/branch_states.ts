/** States of messages that are edited, of branches and of forks. */

import type { Thread } from "../../src/thread/thread.ts";
import { NO_PAST, type Past } from "../../src/ui/branches/past.ts";
import { Store } from "../../src/ui/store/store.ts";
import { done, message, round, thread } from "./build.ts";
import type { State } from "./fixtures.ts";

const attachment = {
  filename: "rings.csv",
  mime: "text/csv",
  sizeBytes: 2_048,
  path: "fi:turn_1.user.attachments/rings.csv",
};
const first = message("How long do herons live?", { attachments: [attachment] });
const second = message("And where do they nest?");
const answers = [round(0, "I look it up."), round(1, "I answer.")];
const turns = [
  done("", answers, "Fifteen years, rarely 25.", { prompts: [first], openedN: first.n, closedN: first.n }),
  done("", answers, "In colonies, in tall trees.", { prompts: [second], openedN: second.n, closedN: second.n }),
];
const talk: Thread = thread(turns);
const past = (more: Partial<Past>) => new Store<Past>({ ...NO_PAST, ...more });
const point = { after: second.n - 1, ways: [["chat-one"], ["chat-gallery"], ["chat-three"]], at: 1 };
const editing = (text: string) => new Store(new Map([[second.messageId, { text, open: true, changed: true }]]));

export const branchStates: Readonly<Record<string, State>> = {
  branches: { thread: talk, context: { past: past({ points: [point], running: new Set(["chat-three"]) }) } },
  "branches-last": { thread: talk, context: { past: past({ points: [{ ...point, at: 2 }] }) } },
  "branch-empty": { thread: talk, context: { past: past({ points: [{ ...point, after: 99_999 }] }) } },
  editing: { thread: talk, context: { edits: editing("And where do they winter?") } },
  "editing-files": {
    thread: talk,
    context: { edits: new Store(new Map([[first.messageId, { text: first.text, open: true, changed: false }]])) },
  },
  "editing-long": { thread: talk, context: { edits: editing("Where? ".repeat(6_000)) } },
  forks: {
    thread: talk,
    context: {
      past: past({
        forks: [
          { conversation: "chat-fork", n: first.n, title: "Herons (fork)" },
          { conversation: "chat-evil", n: first.n, title: "\u202e<b>evil</b>" },
        ],
        origin: { conversation: "chat-origin", n: first.n },
      }),
    },
  },
};
