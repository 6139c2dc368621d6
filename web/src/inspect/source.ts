/**
 * Loads the inspector's data, each item once: a decided round's request, its reply and a full page of the log never
 * change.
 */

import type {
  BlocksView,
  HttpApi,
  LogPage,
  Receipts,
  ReplayList,
  Reply,
  RequestDiff,
  RequestView,
  Rounds,
  StartedReplay,
  WantedReplay,
} from "../api/index.ts";
import { PAGE_BATCHES } from "./log_book.ts";

/** The part of the HTTP API that the inspector uses. */
export type InspectorApi = Pick<
  HttpApi,
  | "listConversationRounds"
  | "getReceipts"
  | "getRequest"
  | "compareRequests"
  | "getReply"
  | "getLog"
  | "getBlocks"
  | "listRoundReplays"
  | "replayARound"
>;

/** The number of cached answers; the oldest is evicted first. */
const KEPT = 40;

export class Source {
  readonly #api: InspectorApi;
  readonly #conversation: string;
  readonly #kept = new Map<string, Promise<unknown>>();

  constructor(api: InspectorApi, conversation: string) {
    this.#api = api;
    this.#conversation = conversation;
  }

  rounds(): Promise<Rounds> {
    return this.#api.listConversationRounds(this.#conversation);
  }

  receipts(): Promise<Receipts> {
    return this.#api.getReceipts(this.#conversation);
  }

  /** A page of the log by its number, from 0; the newest may grow. */
  log(page: number): Promise<LogPage> {
    const query = { after: page * PAGE_BATCHES, limit: PAGE_BATCHES };
    return this.#api.getLog(this.#conversation, query);
  }

  request(n: number): Promise<RequestView> {
    return this.#once(`request ${n}`, () => this.#api.getRequest(this.#conversation, n));
  }

  diff(n: number, to: number): Promise<RequestDiff> {
    return this.#once(`diff ${n} ${to}`, () => this.#api.compareRequests(this.#conversation, n, { to }));
  }

  reply(n: number): Promise<Reply> {
    return this.#once(`reply ${n}`, () => this.#api.getReply(this.#conversation, n));
  }

  /** The replays of a round, which change. */
  replays(n: number): Promise<ReplayList> {
    return this.#api.listRoundReplays(this.#conversation, { decided_n: n });
  }

  /** Each call starts one replay, however often the transport sends it. */
  startReplay(wish: WantedReplay): Promise<StartedReplay> {
    return this.#api.replayARound(this.#conversation, wish, { idempotencyKey: crypto.randomUUID() });
  }

  /** The newest blocks at a path, which may change. */
  blocks(path: string): Promise<BlocksView> {
    return this.#api.getBlocks(this.#conversation, { path });
  }

  #once<Answer>(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    const found = this.#kept.get(key);
    if (found) return found as Promise<Answer>;
    const asked = ask();
    this.#kept.set(key, asked);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest);
    asked.catch(() => this.#kept.delete(key));
    return asked;
  }
}
