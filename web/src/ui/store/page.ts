/** The page of one signed-in user: where it is, its conversations, their list, and the reader's choices. */

import type { HttpApi } from "../../api/index.ts";
import type { AuthSession, Kept, PageConfig } from "../../auth/index.ts";
import { DELETED, type FeedFrame, type WatchingFrame } from "../../client/index.ts";
import { shell } from "../../words/en/shell.ts";
import type { Question } from "../erase/question.ts";
import { Budget } from "../limits/budget.ts";
import { ConversationList } from "../list/conversation_list.ts";
import { conversationOf, formatRoute, HOME, nameConversation, parseRoute, type Route, threadOf } from "../route.ts";
import { Search } from "../search/search.ts";
import type { Settings } from "../settings/settings.ts";
import { Conversation, type Services } from "./conversation.ts";
import { Store } from "./store.ts";

const { erase: words } = shell;

/** Conversations that stay in memory, so that going back to one shows it at once. */
const KEPT = 8;

/** The part of `window.history` and its address that is used. */
export interface History {
  readonly address: () => { readonly path: string; readonly query: string };
  push(address: string): void;
  replace(address: string): void;
  back(): void;
}

export interface PageParts {
  readonly config: PageConfig;
  readonly auth: AuthSession;
  readonly api: HttpApi;
  readonly services: Omit<Services, "hearFeed" | "unreadN" | "said" | "spent" | "gone">;
  readonly settings: Store<Settings>;
  readonly history: History;
  random(bytes: Uint8Array<ArrayBuffer>): void;
  /** Leave for the sign-in, which leads back to a route with what is kept; rejects if it cannot be reached. */
  signIn(returnRoute: string, kept: Kept): Promise<unknown>;
  /** Show what the page does not know of the server's events. */
  readonly debug: boolean;
}

export class Page {
  readonly config: PageConfig;
  readonly auth: AuthSession;
  readonly api: HttpApi;
  readonly settings: Store<Settings>;
  readonly list: ConversationList;
  readonly search: Search;
  readonly budget: Budget;
  readonly route: Store<Route>;
  /** The conversation that is shown, or would begin. */
  readonly current: Store<Conversation>;
  /** A line about the page itself, "" for none. */
  readonly notice = new Store("");
  /** What is asked before something that cannot be undone, null for nothing. */
  readonly question = new Store<Question | null>(null);
  readonly debug: boolean;
  readonly signedOut = new Store(false);
  readonly #parts: PageParts;
  readonly #services: Services;
  /** Open ones, the last one that was shown at the end. */
  readonly #conversations = new Map<string, Conversation>();
  #fresh: string;
  #signsIn = false;
  /** How many of the addresses behind this one are the page's own. */
  #depth = 0;

  constructor(parts: PageParts, unknownRoute: string) {
    this.#parts = parts;
    this.config = parts.config;
    this.auth = parts.auth;
    this.api = parts.api;
    this.settings = parts.settings;
    this.debug = parts.debug;
    this.list = new ConversationList(parts.api, parts.services.clock);
    this.search = new Search(parts.api, parts.services.clock);
    this.budget = new Budget(() => parts.api.readLimits(), parts.services.clock);
    this.#services = {
      ...parts.services,
      hearFeed: (effect) => this.#hear(effect.frame),
      gone: (name) => this.list.drop(name),
      said: (name) => this.#settle(name),
      spent: () => this.budget.refresh(),
      unreadN: (name) => this.list.unreadN(name),
    };
    this.#fresh = nameConversation(parts.random);
    const route = this.#readRoute(unknownRoute);
    this.route = new Store(route);
    this.current = new Store(this.#open(conversationOf(route) || this.#fresh));
    parts.auth.onExpired(() => this.signedOut.set(true));
    this.current.value.attend();
    void this.list.load();
    void this.budget.load();
  }

  get conversations(): readonly Conversation[] {
    return [...this.#conversations.values()];
  }

  /** True if a message that was not sent, or a file, would be lost with the page. A sign-in loses files alone. */
  get holds(): boolean {
    return this.conversations.some((one) => (this.#signsIn ? one.composer.attachments.items.length > 0 : one.holds));
  }

  /** True if this reader may open the inspector. */
  get mayInspect(): boolean {
    const { inspect } = this.config;
    return inspect === "owner" || (inspect === "admin" && this.auth.user.role !== "user");
  }

  /** Leave for the issuer's sign-in, which leads back to this address with what was written and not sent. */
  signIn(): void {
    const written = this.conversations.map((one) => [one.name === this.#fresh ? "" : one.name, one.written] as const);
    const drafts = Object.fromEntries(written.filter(([, text]) => text !== ""));
    this.#signsIn = true;
    this.#parts.signIn(formatRoute(this.route.value), { subject: this.auth.user.subject, drafts }).catch(() => {
      this.#signsIn = false;
      this.notice.set(shell.login.away);
    });
  }

  /** Take back what was written before a sign-in. */
  restore(drafts: Kept["drafts"]): void {
    for (const [name, text] of Object.entries(drafts)) this.#open(name || this.#fresh).composer.write(text);
    this.#open(this.current.value.name);
  }

  signOut(): Promise<void> {
    for (const conversation of this.conversations) conversation.leave();
    return this.auth.signOut();
  }

  /** Go to a route; `replace` leaves no way back to where the page is now. */
  go(route: Route, replace = false): void {
    const address = formatRoute(route);
    this.notice.set("");
    if (replace) this.#parts.history.replace(address);
    else {
      this.#parts.history.push(address);
      this.#depth += 1;
    }
    this.#show(route);
  }

  /** Close what is shown over `behind`: one step back if that is where the reader came from. */
  closeTo(behind: Route): void {
    if (this.#depth > 0) this.#parts.history.back();
    else this.go(behind, true);
  }

  /** Go from the search back to the conversation behind it. */
  closeSearch(): void {
    const { name, store } = this.current.value;
    this.closeTo(store.value.phase === "new" ? HOME : threadOf(name));
  }

  /** Begin a new conversation. */
  begin(): void {
    if (this.current.value.store.value.phase === "new" && this.route.value.is === "new") return;
    this.#fresh = nameConversation(this.#parts.random);
    this.go(HOME);
  }

  /** Show the address as it is now: the reader went back or forward. */
  follow(): void {
    this.#depth = Math.max(0, this.#depth - 1);
    this.#show(this.#readRoute(""));
  }

  /** Ask whether a conversation is to be deleted, and delete it then. */
  askToDelete(name: string): void {
    const known = this.#conversations.get(name)?.store.value.thread.title;
    const title = this.list.store.value.feed.get(name)?.title || known || shell.list.untitled;
    this.question.set({
      title: words.title,
      text: words.text(title),
      act: words.act,
      word: "",
      run: () => this.#delete(name, title),
    });
  }

  async #delete(name: string, title: string): Promise<void> {
    try {
      await this.api.deleteConversation(name);
    } catch (error) {
      // Another device was faster.
      if ((error as { code?: string }).code !== DELETED) throw error;
    }
    this.#bury(name);
    if (this.current.value.name !== name) this.notice.set(words.deleted(title));
  }

  /** Ask whether everything of the user is to be erased. */
  askToErase(): void {
    this.question.set({
      title: words.allTitle,
      text: words.allText,
      act: words.allAct,
      word: words.word,
      run: async () => {
        await this.api.eraseMe();
        for (const name of this.list.store.value.feed.keys()) this.#bury(name);
        this.begin();
        this.notice.set(words.allAsked);
      },
    });
  }

  /** Look at all connections again: the machine was asleep, or is online again. */
  wake(): void {
    for (const conversation of this.#conversations.values()) conversation.wake();
  }

  #hear(frame: FeedFrame | WatchingFrame): void {
    this.list.hear(frame);
    if (frame.frame === "feed" && this.list.isGone(frame.conversation)) this.#bury(frame.conversation);
  }

  /** Show nothing of a conversation any more, where it is shown, and forget it elsewhere. */
  #bury(name: string): void {
    this.list.drop(name);
    this.#conversations.get(name)?.bury();
  }

  /** Give a conversation that has begun its address. */
  #settle(name: string): void {
    if (name !== this.#fresh) return;
    this.#fresh = nameConversation(this.#parts.random);
    if (this.route.value.is === "new") this.go(threadOf(name), true);
  }

  #show(route: Route): void {
    const name = conversationOf(route) || (route.is === "new" ? this.#fresh : this.current.value.name);
    this.route.set(route);
    const before = this.current.value;
    if (before.name === name) return;
    const next = this.#open(name);
    next.attend();
    before.leave();
    this.current.set(next);
  }

  #open(name: string): Conversation {
    const known = this.#conversations.get(name);
    this.#conversations.delete(name);
    const conversation = known ?? new Conversation(name, this.#services, name === this.#fresh);
    this.#conversations.set(name, conversation);
    this.#forgetOldest();
    return conversation;
  }

  #forgetOldest(): void {
    for (const [name, conversation] of this.#conversations) {
      if (this.#conversations.size <= KEPT) return;
      // What is not sent, or was refused, stays, however long ago it was written.
      if (!conversation.holds && conversation.isIdle) this.#conversations.delete(name);
    }
  }

  #readRoute(unknown: string): Route {
    const { path, query } = this.#parts.history.address();
    const route = parseRoute(path, query);
    if (route && route.is !== "callback" && route.is !== "signed-out") return route;
    if (!route) this.notice.set(unknown);
    this.#parts.history.replace(formatRoute(HOME));
    return HOME;
  }
}
