/**
 * Desktop notifications while the page is hidden: a conversation needs an approval, or a long turn has ended.
 *
 * They show a conversation's title and none of its text. Permission is requested by a click (`ui/menu`), never here.
 */

import { visible } from "../../markdown/index.ts";
import { shell } from "../../words/en/shell.ts";
import type { ListState } from "../list/conversation_list.ts";
import type { ListRow } from "../list/rows.ts";
import { threadOf } from "../route.ts";
import type { Page } from "../store/page.ts";
import type { Store } from "../store/store.ts";

const { notification: words } = shell;
/** The minimum duration of a reported turn. After a shorter one, the user is probably still at the page. */
const LONG_MS = 30_000;

export interface Notices {
  nowMs(): number;
  hidden(): boolean;
  /** Show one for a conversation, replacing its previous one. */
  show(conversation: string, title: string, words: string): void;
}

/** Notify of changes in the list until the returned function is called. */
export function watchList(list: Store<ListState>, notices: Notices): () => void {
  let known = new Map<string, ListRow>();
  const since = new Map<string, number>();
  const look = (notifies: boolean) => {
    for (const row of list.value.rows) {
      const before = known.get(row.conversation);
      if (row === before) continue;
      const { conversation } = row;
      const runs = row.state === "in_progress";
      if (runs && before?.state !== "in_progress") since.set(conversation, notices.nowMs());
      const said = notifies && before ? wordsFor(before, row, notices.nowMs() - (since.get(conversation) ?? 0)) : "";
      if (said && notices.hidden()) notices.show(conversation, visible(row.title) || shell.list.untitled, said);
    }
    known = new Map(list.value.rows.map((row) => [row.conversation, row]));
  };
  look(false);
  return list.subscribe(() => look(true));
}

function wordsFor(before: ListRow, row: ListRow, ranMs: number): string {
  if (row.waits) return before.waits ? "" : words.approval;
  if (before.state !== "in_progress" || row.state === "in_progress" || ranMs < LONG_MS) return "";
  return row.state === "error" ? words.failed : words.ended;
}

export function browserNotices(page: Page): Notices {
  return {
    nowMs: () => Date.now(),
    hidden: () => document.visibilityState === "hidden",
    show(conversation, title, body) {
      try {
        const notice = new Notification(title, { body, tag: conversation });
        notice.onclick = () => {
          window.focus();
          page.go(threadOf(conversation));
          notice.close();
        };
      } catch {
        // Mobile browsers have no notifications without a service worker.
      }
    },
  };
}
