/** Rows of the list of conversations: by day of their last activity, newest first. */

export interface ListRow {
  readonly conversation: string;
  readonly title: string;
  readonly state: string;
  /** Epoch milliseconds of the last activity. */
  readonly at: number;
  readonly unread: boolean;
  /** Its turn waits for approval. */
  readonly waits: boolean;
}

/**
 * Return the number of conversations that wait for approval. `openWaits` is the state of the open one, null while
 * unknown.
 */
export function countWaiting(rows: readonly ListRow[], open: string, openWaits: boolean | null): number {
  const listed = rows.filter((row) => row.waits && (openWaits === null || row.conversation !== open));
  return listed.length + Number(openWaits === true);
}

export type Day = "today" | "yesterday" | "week" | "month" | "older";

export interface DayGroup {
  readonly day: Day;
  readonly rows: readonly ListRow[];
}

const DAYS: readonly Day[] = ["today", "yesterday", "week", "month", "older"];
const DAY_MS = 86_400_000;

/** Return rows in groups by the user's calendar, without empty groups. */
export function groupByDay(rows: readonly ListRow[], nowMs: number): readonly DayGroup[] {
  const sorted = [...rows].sort((a, b) => b.at - a.at || a.conversation.localeCompare(b.conversation));
  return DAYS.map((day) => ({ day, rows: sorted.filter((row) => dayOf(row.at, nowMs) === day) })).filter(
    (group) => group.rows.length > 0,
  );
}

/** Return the group of a time. */
export function dayOf(atMs: number, nowMs: number): Day {
  const days = Math.round((startOfDay(nowMs) - startOfDay(atMs)) / DAY_MS);
  if (days <= 0) return "today";
  if (days === 1) return "yesterday";
  if (days <= 7) return "week";
  return days <= 30 ? "month" : "older";
}

function startOfDay(ms: number): number {
  return new Date(ms).setHours(0, 0, 0, 0);
}

/** Return the rows whose title contains all words of a query, in any case. */
export function matchTitles(rows: readonly ListRow[], query: string): readonly ListRow[] {
  const words = query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    const title = row.title.toLocaleLowerCase();
    return words.every((word) => title.includes(word));
  });
}
