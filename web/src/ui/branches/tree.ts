/** Reads the tree of a conversation, and keeps it in all members that the page has open. */

import { type Branch, branchPoints } from "../../thread/branches.ts";
import { branchWords as words } from "../../words/en/branches.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import type { Past } from "./past.ts";

/** A branch as the API returns it. */
interface Item {
  readonly conversation: string;
  readonly origin: string;
  readonly n: number;
  readonly title: string;
  readonly begun_at: string;
  readonly last_activity_at: string;
}

/** Read the branches and the forks of a conversation. Nothing changes if they cannot be read. */
export async function readPast(page: Page, conversation: Conversation): Promise<void> {
  const { name, past } = conversation;
  await Promise.all([
    page.api.listBranches(name).then(
      ({ items }) => takeBranches(page, conversation, items.map(branchOf)),
      () => undefined,
    ),
    page.api.listForks(name).then(
      ({ items }) =>
        past.update({ forks: items.map(({ conversation: fork, n, title }) => ({ conversation: fork, n, title })) }),
      () => undefined,
    ),
  ]);
}

/** Set the tree of a conversation, and name its members as branches in the list. */
export function takeBranches(page: Page, { name, past }: Conversation, branches: readonly Branch[]): void {
  const root = branches[0]?.conversation ?? "";
  for (const branch of branches.slice(1)) page.list.join(branch.conversation, root);
  past.set(withBranches(past.value, branches, name));
}

/** Return a past with these branches: the same object if they are the same. */
function withBranches(past: Past, branches: readonly Branch[], conversation: string): Past {
  if (JSON.stringify(branches) === JSON.stringify(past.branches)) return past;
  return { ...past, branches, points: branchPoints(branches, conversation) };
}

function branchOf(item: Item): Branch {
  return {
    conversation: item.conversation,
    origin: item.origin,
    n: item.n,
    title: item.title,
    begunAt: Date.parse(item.begun_at) || 0,
    lastActivityAt: Date.parse(item.last_activity_at) || 0,
  };
}

/** Return the name of a conversation in its tree, "" without branches. */
export function branchName({ name, past }: Conversation): string {
  return nameBranch(past.value.branches, name);
}

/** Return the name of a member of a tree, "" without branches: `Branch 2 of 3 (chat-…)`. */
export function nameBranch(branches: readonly Branch[], conversation: string): string {
  const at = branches.findIndex((branch) => branch.conversation === conversation);
  return branches.length > 1 && at >= 0 ? `${words.branchOf(at + 1, branches.length)} (${conversation})` : "";
}

/** Return the branches of a conversation; of one that has none, itself. */
export function branchesOf({ name, past, store }: Conversation): readonly Branch[] {
  if (past.value.branches.length > 0) return past.value.branches;
  const { title } = store.value.thread;
  return [{ conversation: name, origin: "", n: 0, title, begunAt: 0, lastActivityAt: 0 }];
}
