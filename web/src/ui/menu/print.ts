/** Prints the thread, including the turns that were not loaded. */

import type { Conversation } from "../store/conversation.ts";

/**
 * Print once every turn is rendered. If one cannot be loaded, print the loaded ones with a note of how many are
 * missing.
 */
export async function printAll(conversation: Conversation): Promise<void> {
  await conversation.loadAll().catch(() => undefined);
  await new Promise(requestAnimationFrame);
  await new Promise((resolve) => setTimeout(resolve));
  window.print();
}
