/**
 * The list of conversations: read by page over HTTP, and kept current by the feed.
 *
 * When the feed asks to read the list, it is read at once, and again after 5 s, since its index may lag.
 */

import type { ListQuery, ConversationList as Page } from "../../api/index.ts";
import {
  type FeedFrame,
  type FeedRows,
  foldFeed,
  GONE,
  takePage,
  unreadN,
  type WatchingFrame,
} from "../../client/index.ts";
import type { Clock } from "../store/clock.ts";
import { Store } from "../store/store.ts";
import type { ListRow } from "./rows.ts";

const AGAIN_MS = 5_000;
/** The list is read again after a conversation has appeared. */
const NEWCOMER_MS = 1_000;
/** Newer activity may not be in the index yet. */
const NEW_MS = 60_000;

export interface ListState {
  readonly phase: "waiting" | "loading" | "ready" | "failed";
  readonly feed: FeedRows;
  /** Epoch milliseconds of the last activity, by conversation. */
  readonly activity: ReadonlyMap<string, number>;
  /** The root of the tree of each branch, by conversation. */
  readonly roots: ReadonlyMap<string, string>;
  readonly rows: readonly ListRow[];
  /** The cursor of the next page, "" if there is none. */
  readonly next: string;
}

export interface ListApi {
  listAll(query: ListQuery): Promise<Page>;
  markRead(conversation: string, body: { readonly n: number }): Promise<void>;
}

export class ConversationList {
  readonly store = new Store<ListState>({
    phase: "waiting",
    feed: new Map(),
    activity: new Map(),
    roots: new Map(),
    rows: [],
    next: "",
  });
  readonly #api: ListApi;
  readonly #clock: Clock;
  #paged = false;
  /** Conversations that the feed named first. They are hidden until a page of the list says whether they are branches. */
  readonly #unplaced = new Set<string>();

  constructor(api: ListApi, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /** Read the first page; later ones stay unchanged. `whole`: the index is up to date, so a missing row is deleted. */
  async load(whole = false): Promise<void> {
    if (this.store.value.phase !== "ready") this.store.update({ phase: "loading" });
    try {
      const page = await this.#api.listAll({});
      this.#take(page, !this.#paged);
      if (whole) this.#forgetMissing(page);
    } catch {
      if (this.store.value.phase !== "ready") this.store.update({ phase: "failed" });
    }
  }

  async loadMore(): Promise<void> {
    const { next } = this.store.value;
    if (!next) return;
    this.#paged = true;
    try {
      this.#take(await this.#api.listAll({ after: next }), true);
    } catch {
      // The button remains, and can be pressed again.
    }
  }

  /** Return the first unread batch of a conversation, 0 for none. */
  unreadN(conversation: string): number {
    const row = this.store.value.feed.get(conversation);
    return row ? unreadN(row) : 0;
  }

  /** Return the root of the tree of a conversation, itself if it is no known branch. */
  rootOf(conversation: string): string {
    return this.store.value.roots.get(conversation) || conversation;
  }

  /** Return the known conversations of a tree. */
  treeOf(root: string): readonly string[] {
    return [root, ...[...this.store.value.roots].filter(([, one]) => one === root).map(([name]) => name)];
  }

  /** Record that a conversation is a branch. */
  join(conversation: string, root: string): void {
    if (this.store.value.roots.get(conversation) === root) return;
    this.store.update({ roots: new Map(this.store.value.roots).set(conversation, root) });
    this.#unplaced.delete(conversation);
    this.#show(this.store.value.feed, this.store.value.activity);
  }

  /** True for a deleted conversation. */
  isGone(conversation: string): boolean {
    return this.store.value.feed.get(conversation)?.state === GONE;
  }

  /** Hide a deleted conversation, even if a late read still returns it. */
  drop(conversation: string): void {
    if (this.isGone(conversation)) return;
    const data = { state: GONE };
    const event = { type: "conv.status", route: "", ts: "", turn_id: "", step: "", status: "", data };
    const frame: FeedFrame = { frame: "feed", conversation, n: Number.MAX_SAFE_INTEGER, events: [event], read_n: 0 };
    this.#show(foldFeed(this.store.value.feed, frame), this.store.value.activity);
  }

  /** Forget rows that the page should contain but does not: they were deleted without an event on this page. */
  #forgetMissing(page: Page): void {
    const { feed, activity } = this.store.value;
    const listed = new Set(page.items.map((item) => item.conversation));
    const last = page.items.at(-1);
    const from = page.next && last ? (activity.get(last.conversation) ?? 0) : 0;
    const upto = this.#clock.nowMs() - NEW_MS;
    const isMissing = (name: string, at: number) => !listed.has(name) && at > from && at < upto;
    const left = [...feed].filter(([name]) => this.isGone(name) || !isMissing(name, activity.get(name) ?? 0));
    if (left.length < feed.size) this.#show(new Map(left), activity);
  }

  /** Apply a frame of the feed: read the list, or update one conversation. */
  apply(frame: WatchingFrame | FeedFrame): void {
    if (frame.frame === "watching") {
      void this.load();
      this.#clock.after(AGAIN_MS, () => void this.load(true));
      return;
    }
    const { feed, activity, roots } = this.store.value;
    // It is a fork of another device, and only a page of the list says whether it is a branch.
    if (frame.n > 1 && !feed.has(frame.conversation)) {
      if (!roots.has(frame.conversation)) this.#unplaced.add(frame.conversation);
      this.#clock.after(NEWCOMER_MS, () => void this.#place(frame.conversation));
    }
    const times = frame.events.map((event) => Date.parse(event.ts)).filter(Number.isFinite);
    const at = Math.max(activity.get(frame.conversation) ?? 0, ...times);
    this.#show(foldFeed(feed, frame), new Map(activity).set(frame.conversation, at));
  }

  /** Read the list, and show a conversation also if the page does not contain it. */
  async #place(conversation: string): Promise<void> {
    await this.load();
    if (this.#unplaced.delete(conversation)) this.#show(this.store.value.feed, this.store.value.activity);
  }

  /** Record that the user has read a conversation up to batch `n`, here and on the server. */
  markRead(conversation: string, n: number): void {
    const row = this.store.value.feed.get(conversation);
    if (!row || unreadN(row) === 0 || n < row.activeN) return;
    const frame: FeedFrame = { frame: "feed", conversation, n: 0, events: [], read_n: n };
    this.#show(foldFeed(this.store.value.feed, frame), this.store.value.activity);
    // If this fails, the row is unread again after the next read of the list.
    void this.#api.markRead(conversation, { n }).catch(() => undefined);
  }

  #take(page: Page, keepNext: boolean): void {
    const { feed, activity } = this.store.value;
    const times = new Map(activity);
    const roots = new Map(this.store.value.roots);
    for (const item of page.items) {
      this.#unplaced.delete(item.conversation);
      if (item.branch_of) roots.set(item.conversation, item.branch_of);
      const at = Date.parse(item.last_activity_at);
      times.set(item.conversation, Math.max(times.get(item.conversation) ?? 0, Number.isFinite(at) ? at : 0));
    }
    this.store.update({ phase: "ready", roots, ...(keepNext && { next: page.next }) });
    this.#show(takePage(feed, page.items), times);
  }

  #show(feed: FeedRows, activity: ReadonlyMap<string, number>): void {
    const shown = new Map(this.store.value.rows.map((row) => [row.conversation, row]));
    const alive = [...feed.values()].filter((row) => row.state !== GONE && !this.#unplaced.has(row.conversation));
    const rows = alive.map((row) => {
      const next: ListRow = {
        conversation: row.conversation,
        title: row.title,
        state: row.state,
        at: activity.get(row.conversation) ?? 0,
        unread: unreadN(row) > 0,
        waits: row.waitsFor === "approval",
        branchOf: this.store.value.roots.get(row.conversation) ?? "",
      };
      const old = shown.get(row.conversation);
      return old && isSame(old, next) ? old : next;
    });
    this.store.update({ feed, activity, rows });
  }
}

function isSame(a: ListRow, b: ListRow): boolean {
  return (Object.keys(a) as (keyof ListRow)[]).every((field) => a[field] === b[field]);
}
