/** The page of one signed-in user: its address, its conversations, their list, and the user's settings. */

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

/** The refusal of a deletion: other conversations continue this one. */
const HAS_FORKS = "has_forks";
/** The number of conversations that stay in memory, so that returning to one shows it at once. */
const KEPT = 8;

/** The subset of `window.history` and its address in use. */
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
  readonly services: Omit<Services, "onFeed" | "unreadN" | "said" | "usageChanged" | "gone">;
  readonly settings: Store<Settings>;
  readonly history: History;
  random(bytes: Uint8Array<ArrayBuffer>): void;
  /** Go to the sign-in, which returns to a route with the kept drafts; rejects if it cannot be reached. */
  signIn(returnRoute: string, kept: Kept): Promise<unknown>;
  /** Show the server's events that the page does not know. */
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
  /** The question before an action, null for none. */
  readonly question = new Store<Question | null>(null);
  readonly debug: boolean;
  readonly signedOut = new Store(false);
  readonly #parts: PageParts;
  readonly #services: Services;
  /** Open conversations, the most recently shown one last. */
  readonly #conversations = new Map<string, Conversation>();
  #fresh: string;
  #signsIn = false;
  /** The number of earlier entries in the browser's history that belong to the page. */
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
      onFeed: (effect) => this.#apply(effect.frame),
      gone: (name) => this.list.drop(name),
      said: (name) => this.#settle(name),
      usageChanged: () => this.budget.refresh(),
      unreadN: (name) => this.list.unreadN(name),
    };
    this.#fresh = nameConversation(parts.random);
    const route = this.#readRoute(unknownRoute);
    this.route = new Store(route);
    this.current = new Store(this.#open(conversationOf(route) || this.#fresh));
    parts.auth.onExpired(() => this.signedOut.set(true));
    this.current.value.show();
    void this.list.load();
    void this.budget.load();
  }

  get conversations(): readonly Conversation[] {
    return [...this.#conversations.values()];
  }

  /** True if an unsent message or a file would be lost with the page. A sign-in loses only files. */
  get holds(): boolean {
    return this.conversations.some((one) => (this.#signsIn ? one.composer.attachments.items.length > 0 : one.holds));
  }

  /** True if this user may open the inspector. */
  get mayInspect(): boolean {
    const { inspect } = this.config;
    return inspect === "owner" || (inspect === "admin" && this.auth.user.role !== "user");
  }

  /** Go to the issuer's sign-in, which returns to this address with the unsent drafts. */
  signIn(): void {
    const written = this.conversations.map((one) => [one.name === this.#fresh ? "" : one.name, one.written] as const);
    const drafts = Object.fromEntries(written.filter(([, text]) => text !== ""));
    this.#signsIn = true;
    this.#parts.signIn(formatRoute(this.route.value), { subject: this.auth.user.subject, drafts }).catch(() => {
      this.#signsIn = false;
      this.notice.set(shell.login.away);
    });
  }

  /** Restore the drafts from before a sign-in. */
  restore(drafts: Kept["drafts"]): void {
    for (const [name, text] of Object.entries(drafts)) this.#open(name || this.#fresh).composer.write(text);
    this.#open(this.current.value.name);
  }

  signOut(): Promise<void> {
    for (const conversation of this.conversations) conversation.leave();
    return this.auth.signOut();
  }

  /** Navigate to a route; `replace` leaves no history entry for the current address. */
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

  /** Close an overlay of the route `base`: one step back if the user came from there. */
  closeTo(base: Route): void {
    if (this.#depth > 0) this.#parts.history.back();
    else this.go(base, true);
  }

  /** Return from the search to the conversation below it. */
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

  /** Show the current address: the user went back or forward. */
  follow(): void {
    this.#depth = Math.max(0, this.#depth - 1);
    this.#show(this.#readRoute(""));
  }

  /** Return the name of a new conversation. */
  nameNew(): string {
    return nameConversation(this.#parts.random);
  }

  /** Return a conversation without showing it. */
  prepare(name: string): Conversation {
    const conversation = this.#open(name);
    this.#open(this.current.value.name);
    return conversation;
  }

  /** Ask whether to delete a conversation with its branches, and delete it after confirmation. */
  askToDelete(name: string): void {
    const known = this.#conversations.get(name);
    const branches = known?.past.value.branches ?? [];
    const root = branches[0]?.conversation || this.list.rootOf(name);
    const tree = new Set([...this.list.treeOf(root), ...branches.map((branch) => branch.conversation)]);
    const title = this.list.store.value.feed.get(name)?.title || known?.store.value.thread.title || shell.list.untitled;
    const others = tree.size > 1 ? ` ${words.withBranches(tree.size - 1)}` : "";
    this.question.set({
      title: words.title,
      text: `${words.text(title)}${others}`,
      act: words.act,
      word: "",
      run: () => this.#delete([...tree], title, false),
    });
  }

  /** Delete a tree of branches by its root, which is named first; `cascade`: with its forks. */
  async #delete(tree: readonly string[], title: string, cascade: boolean): Promise<void> {
    try {
      await this.api.deleteConversation(tree[0] ?? "", cascade ? { cascade } : {});
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === HAS_FORKS) {
        this.#askToDeleteForks(tree, title);
        return;
      }
      // Another device was faster.
      if (code !== DELETED) throw error;
    }
    const { name } = this.current.value;
    for (const one of tree) this.#drop(one);
    if (!tree.includes(name)) this.notice.set(words.deleted(title));
  }

  #askToDeleteForks(tree: readonly string[], title: string): void {
    this.question.set({
      title: words.hasForksTitle,
      text: words.hasForksText,
      act: words.hasForksAct,
      word: "",
      run: () => this.#delete(tree, title, true),
    });
  }

  /** Ask whether to delete all of the user's data. */
  askToErase(): void {
    this.question.set({
      title: words.allTitle,
      text: words.allText,
      act: words.allAct,
      word: words.word,
      run: async () => {
        await this.api.eraseMe();
        for (const name of this.list.store.value.feed.keys()) this.#drop(name);
        this.begin();
        this.notice.set(words.allAsked);
      },
    });
  }

  /** Check all connections again: the machine was asleep, or is online again. */
  wake(): void {
    for (const conversation of this.#conversations.values()) conversation.wake();
  }

  #apply(frame: FeedFrame | WatchingFrame): void {
    this.list.apply(frame);
    if (frame.frame === "feed" && this.list.isGone(frame.conversation)) this.#drop(frame.conversation);
  }

  /** Hide a deleted conversation if it is shown, and forget it otherwise. */
  #drop(name: string): void {
    this.list.drop(name);
    this.#conversations.get(name)?.drop();
  }

  /** Give a started conversation its address. */
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
    next.show();
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
      // Unsent and refused messages stay, however old they are.
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
