/** Parts that load in parallel with the page's first render, or after it. */

import { takeSentences } from "../../words/index.ts";

export const loadLater = () => import("./later.ts");

/** Load the sentences of codes. Without them, a code is shown by the server's message or by its name. */
export async function loadCodes(): Promise<true> {
  try {
    takeSentences(await import("../../words/en/codes.ts"));
  } catch {
    // The server has its own sentences for most codes.
  }
  return true;
}
