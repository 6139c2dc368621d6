/** Goes from one branch to another, and keeps the place of the reader and the focus. */

import type { BranchPoint } from "../../thread/branches.ts";
import { threadOf } from "../route.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { takeBranches } from "./tree.ts";

/** The switch to focus in the branch that is shown next: its point, and its direction. */
interface Aim {
  readonly after: number;
  readonly by: 1 | -1;
}

let aim: Aim | null = null;

/** Show the most recently active branch on another way from a point. */
export function switchBranch(page: Page, conversation: Conversation, point: BranchPoint, by: 1 | -1): void {
  const name = point.ways[point.at + by]?.[0];
  if (!name) return;
  aim = { after: point.after, by };
  takeBranches(page, page.prepare(name), conversation.past.value.branches);
  page.go(threadOf(name));
}

/** Return the direction in which a switch that has appeared was used, 0 if it was another one. */
export function takeAim(after: number): 1 | -1 | 0 {
  if (aim?.after !== after) return 0;
  const { by } = aim;
  aim = null;
  return by;
}
