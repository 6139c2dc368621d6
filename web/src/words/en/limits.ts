/** Words of limits, of what is left of them, and of the admins' view, in English. */

import { formatBytes, formatTokens, formatUsd } from "../format.ts";

export const say = {
  againIn: (time: string) => `Again in ${time}.`,
  againFrom: (clock: string) => `Again at ${clock}.`,
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

  // The admins' view
  title: "Limits",
  close: "Close",
  intro: "An empty field leaves it to the default, which stands in grey. 0 of a budget allows nothing.",
  tenantOf: (name: string) => `Organization ${name}`,
  projectOf: (name: string) => `Project ${name}`,
  userOf: (name: string) => `User ${name}`,
  userName: "Limits of a user, by the name in the token",
  show: "Show",
  reading: "Reading…",
  saving: "Saving…",
  saved: "Saved; it holds from the next round on.",
  save: "Save",
  wrong: "A marked field is no number that counts.",
  none: "none",
  used: (amount: string) => `${amount} used`,
  endsAt: (day: string, month: string) => `The day ends at ${day}, the month at ${month}.`,
  isStopped: "stopped",
  stopAll: "Stop all work",
  reason: "Reason, which its users read",
  noReason: "Stopped by an administrator.",
  fields: {
    messages_per_minute: "Messages a minute",
    turns_at_once: "Turns at once",
    usd_day: "Dollars a day",
    usd_month: "Dollars a month",
    tokens_day: "Tokens a day",
    tokens_month: "Tokens a month",
    storage_bytes: "Storage in MB",
  },
};
