/**
 * The search over all messages and answers: it runs 200 ms after the last letter, and groups its hits by conversation.
 */

import type { SearchItem, SearchPage, SearchQuery } from "../../api/index.ts";
import type { Clock } from "../store/clock.ts";
import { Store } from "../store/store.ts";

const PAUSE_MS = 200;
const QUERY_MAX_CHARS = 256;

export interface SearchState {
  readonly query: string;
  readonly phase: "idle" | "asking" | "ready" | "failed";
  readonly items: readonly SearchItem[];
  readonly next: string;
  readonly isPartial: boolean;
}

const NOTHING: SearchState = { query: "", phase: "idle", items: [], next: "", isPartial: false };

export interface SearchApi {
  search(query: SearchQuery): Promise<SearchPage>;
}

export class Search {
  readonly store = new Store<SearchState>(NOTHING);
  readonly #api: SearchApi;
  readonly #clock: Clock;
  #cancel = () => {};

  constructor(api: SearchApi, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /** Search for a text, unless another one is entered within the pause. */
  ask(text: string): void {
    const query = text.trim().slice(0, QUERY_MAX_CHARS);
    if (query === this.store.value.query) return;
    this.#cancel();
    this.store.set(query ? { ...NOTHING, query, phase: "asking" } : NOTHING);
    if (query) this.#cancel = this.#clock.after(PAUSE_MS, () => void this.#read(query, ""));
  }

  more(): void {
    const { query, next } = this.store.value;
    if (next) void this.#read(query, next);
  }

  async #read(query: string, after: string): Promise<void> {
    try {
      const page = await this.#api.search({ q: query, ...(after && { after }) });
      // Ignore the answer to an outdated query.
      if (this.store.value.query !== query) return;
      const items = after ? [...this.store.value.items, ...page.items] : page.items;
      this.store.update({ phase: "ready", items, next: page.next, isPartial: page.behind });
    } catch {
      if (this.store.value.query === query) this.store.update({ phase: "failed" });
    }
  }
}

export interface HitGroup {
  readonly conversation: string;
  readonly items: readonly SearchItem[];
}

/** Return hits by conversation, in the order of each conversation's best one. */
export function groupHits(items: readonly SearchItem[]): readonly HitGroup[] {
  const groups = new Map<string, SearchItem[]>();
  for (const item of items) {
    const group = groups.get(item.conversation);
    if (group) group.push(item);
    else groups.set(item.conversation, [item]);
  }
  return [...groups].map(([conversation, found]) => ({ conversation, items: found }));
}
