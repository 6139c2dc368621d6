/** Reads the branches and forks of the shown conversation, and again when one of its branches appears in the list. */

import { useEffect } from "preact/hooks";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useSelector } from "../store/store.ts";
import { readPast } from "./tree.ts";

export function PastReader({ page, conversation }: { page: Page; conversation: Conversation }) {
  const begun = useSelector(conversation.store, (state) => state.phase === "ready" && state.thread.turns.length > 0);
  const tree = () => page.list.treeOf(page.list.rootOf(conversation.name));
  const members = useSelector(page.list.store, () => tree().length);
  const running = useSelector(page.list.store, ({ feed }) =>
    tree()
      .filter((name) => feed.get(name)?.state === "in_progress")
      .join(" "),
  );
  useEffect(() => {
    if (begun) void readPast(page, conversation);
  }, [page, conversation, begun, members]);
  useEffect(() => conversation.past.update({ running: new Set(running.split(" ")) }), [conversation, running]);
  return null;
}
