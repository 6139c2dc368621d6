/** Words of limits, of what is left of them, and of the admins' view, in English. */

import { formatBytes, formatTokens, formatUsd } from "../format.ts";

export const say = {
  againIn: (time: string) => `Again in ${time}.`,
  againAt: (clock: string, left: string) => `Again at ${clock}, in ${left}.`,

  // What is left, beside the field
  left: "Left",
  leftLabel: "What is left of your budget",
  amount: {
    usd: formatUsd,
    tokens: formatTokens,
    storage: formatBytes,
  },
  unit: { usd: "", tokens: "tokens", storage: "of storage" },
  window: { day: "today", month: "this month", "": "" },
  whose: { user: "", project: "of the project", tenant: "of the organization" },
  of: (left: string, whole: string) => `${left} of ${whole}`,
  leftTitle: (ends: string) => `It begins again at ${ends}.`,
  stopped: (reason: string) => `Work is stopped: ${reason}`,
};
