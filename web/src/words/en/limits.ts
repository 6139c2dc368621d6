/** Words of limits, of remaining amounts, and of the admin view, in English. */

import { formatBytes, formatTokens, formatUsd } from "../format.ts";

export const say = {
  againIn: (time: string) => `Try again in ${time}.`,
  againFrom: (clock: string) => `Try again at ${clock}.`,
  againAt: (clock: string, left: string) => `Try again at ${clock} (in ${left}).`,

  // Remaining amounts, next to the input
  left: "Left",
  leftLabel: "Your remaining budget",
  amount: {
    usd: formatUsd,
    tokens: formatTokens,
    storage: formatBytes,
  },
  unit: { usd: "", tokens: "tokens", storage: "of storage" },
  window: { day: "today", month: "this month", "": "" },
  whose: { user: "", project: "of the project", tenant: "of the organization" },
  of: (left: string, whole: string) => `${left} of ${whole}`,
  leftTitle: (ends: string) => `Resets at ${ends}.`,
  stopped: (reason: string) => `All work is stopped: ${reason}`,

  // The admin view
  title: "Limits",
  close: "Close",
  intro: "An empty field uses the default, shown in gray. A budget of 0 allows nothing.",
  tenantOf: (name: string) => `Organization ${name}`,
  projectOf: (name: string) => `Project ${name}`,
  userOf: (name: string) => `User ${name}`,
  userName: "Limits of a user (the name in their token)",
  show: "Show",
  reading: "Loading…",
  saving: "Saving…",
  saved: "Saved. It applies from the next round.",
  save: "Save",
  wrong: "Enter a number in the highlighted fields.",
  none: "none",
  used: (amount: string) => `${amount} used`,
  endsAt: (day: string, month: string) => `Daily budgets reset at ${day}, monthly budgets at ${month}.`,
  isStopped: "stopped",
  stopAll: "Stop all work",
  reason: "Reason (shown to users)",
  noReason: "Stopped by an administrator.",
  fields: {
    messages_per_minute: "Messages per minute",
    turns_at_once: "Concurrent turns",
    usd_day: "Dollars per day",
    usd_month: "Dollars per month",
    tokens_day: "Tokens per day",
    tokens_month: "Tokens per month",
    storage_bytes: "Storage in MB",
  },
};
