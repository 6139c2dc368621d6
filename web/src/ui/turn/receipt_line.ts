/** The usage of a turn in one line. */

import type { Receipt } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatMs, formatUsd } from "../../words/format.ts";

/** Return dollars, marked if incomplete; "" if no price is known. */
export function sayUsd(usd: number, priced: boolean): string {
  if (priced) return usd > 0 ? formatUsd(usd) : say.free;
  return usd > 0 ? say.atLeast(formatUsd(usd)) : "";
}

/** The one line of a receipt: `3.2 s · 2 rounds · 9.5k weighted · $0.0284`, or the model in place of $0. */
export function receiptLine(receipt: Receipt): string {
  const estimated = receipt.usage?.estimated ? `${say.about} ` : "";
  const isFree = receipt.priced && receipt.usd === 0;
  const cost = receipt.usage && (isFree ? receipt.model : sayUsd(receipt.usd, receipt.priced));
  return [
    formatMs(receipt.elapsedMs),
    say.rounds(receipt.rounds),
    receipt.usage && `${estimated}${say.units(receipt.weightedTokens)}`,
    cost && (isFree ? cost : `${estimated}${cost}`),
  ]
    .filter(Boolean)
    .join(" · ");
}
