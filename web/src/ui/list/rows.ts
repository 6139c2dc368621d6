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
  /** The root of the tree that it is a branch of, "" for a conversation that is no branch. */
  readonly branchOf: string;
}

/** A row of the list: a conversation, or the most recently active branch of a tree. */
export interface TreeRow extends ListRow {
  /** The root of the tree, itself without branches. */
  readonly root: string;
  /** It has no branches, as far as the list is loaded. */
  readonly isAlone: boolean;
}

/**
 * Return a row for each tree, with the name of the most recently active branch. It runs, or waits, if any of the branches
 * does.
 */
export function rowsOfTrees(rows: readonly ListRow[]): readonly TreeRow[] {
  const trees = new Map<string, ListRow[]>();
  for (const row of byTime(rows)) {
    const root = row.branchOf || row.conversation;
    trees.set(root, [...(trees.get(root) ?? []), row]);
  }
  return [...trees].map(([root, tree]) => {
    const [first] = tree as [ListRow];
    const runs = tree.some((row) => row.state === "in_progress");
    return {
      ...first,
      state: runs ? "in_progress" : first.state,
      waits: tree.some((row) => row.waits),
      root,
      isAlone: tree.length === 1,
    };
  });
}

function byTime<Row extends ListRow>(rows: readonly Row[]): readonly Row[] {
  return [...rows].sort((a, b) => b.at - a.at || a.conversation.localeCompare(b.conversation));
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

export interface DayGroup<Row extends ListRow> {
  readonly day: Day;
  readonly rows: readonly Row[];
}

const DAYS: readonly Day[] = ["today", "yesterday", "week", "month", "older"];
const DAY_MS = 86_400_000;

/** Return rows in groups by the user's calendar, without empty groups. */
export function groupByDay<Row extends ListRow>(rows: readonly Row[], nowMs: number): readonly DayGroup<Row>[] {
  const sorted = byTime(rows);
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
