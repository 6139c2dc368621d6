/** The cost of the conversation so far, read when the menu is opened. */

import { useEffect, useState } from "preact/hooks";
import { type ConversationCost, conversationCostOf } from "../../thread/whole_receipt.ts";
import { shell } from "../../words/en/shell.ts";
import type { Page } from "../store/page.ts";
import { sayUsd } from "../turn/receipt_line.ts";

export function Total({ page, conversation, open }: { page: Page; conversation: string; open: boolean }) {
  const [cost, setCost] = useState<ConversationCost | null>(null);
  useEffect(() => {
    if (!open) return;
    let shown = true;
    page.api.getReceipts(conversation).then(
      (receipts) => shown && setCost(conversationCostOf({ ...receipts })),
      // It shows nothing then; the next opening tries again.
      () => shown && setCost(null),
    );
    return () => {
      shown = false;
    };
  }, [page, conversation, open]);
  const usd = cost ? cost.usd + cost.awsUsd : 0;
  const said = cost && usd > 0 && sayUsd(usd, cost.priced);
  return said ? <p>{shell.menu.cost(said)}</p> : null;
}
