/** What is loaded beside the first picture of the page, or behind it. */

import { takeSentences } from "../../words/index.ts";

export const loadLater = () => import("./later.ts");

/** Load the sentences of codes. Without them a code is shown by the server's message, or by its name. */
export async function loadCodes(): Promise<true> {
  try {
    takeSentences(await import("../../words/en/codes.ts"));
  } catch {
    // The server has its own words for most.
  }
  return true;
}
