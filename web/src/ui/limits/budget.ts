/** The remaining amounts of the limits that apply to the user. They are read again after each turn. */

import type { Clock } from "../store/clock.ts";
import { Store } from "../store/store.ts";

export type LimitKind = "usd" | "tokens" | "storage";
export type Scope = "user" | "project" | "tenant";

/** The limits and usage of a scope, as in `GET /v1/limits`. A null or absent limit means none. */
export interface ScopeLimits {
  readonly scope: Scope;
  readonly limits: {
    readonly tokens_day?: number | null;
    readonly tokens_month?: number | null;
    readonly usd_day?: number | null;
    readonly usd_month?: number | null;
    readonly storage_bytes?: number | null;
    readonly stopped?: string | null;
  };
  readonly used: {
    readonly tokens_day?: number;
    readonly tokens_month?: number;
    readonly usd_day?: number;
    readonly usd_month?: number;
    readonly storage_bytes?: number;
  };
  readonly day_ends_at: string;
  readonly month_ends_at: string;
}

/** The remaining amount of one limit. */
export interface Left {
  readonly what: LimitKind;
  readonly window: "day" | "month" | "";
  readonly whose: Scope;
  readonly left: number;
  readonly of: number;
  /** When it resets, "" for storage. */
  readonly endsAt: string;
}

export interface BudgetState {
  /** The tightest limit of each kind; empty if there is none. */
  readonly lefts: readonly Left[];
  /** The reason why turns cannot run, "" if they can. */
  readonly stopped: string;
  /** The user's role according to the server. The page does not know which claim decides it. */
  readonly role: string;
}

/** The answer of `GET /v1/limits`. */
interface Own {
  readonly scopes: readonly ScopeLimits[];
  readonly role?: string;
}

/** Storage is mentioned when less than this share is left. */
const STORAGE_SHOWN_BELOW = 0.2;
/** A turn is charged after its end. */
const SETTLED_MS = 2_000;

const NOTHING: BudgetState = { lefts: [], stopped: "", role: "" };

export class Budget {
  readonly store = new Store<BudgetState>(NOTHING);
  readonly #read: () => Promise<Own>;
  readonly #clock: Clock;
  #planned = false;

  constructor(read: () => Promise<Own>, clock: Clock) {
    this.#read = read;
    this.#clock = clock;
  }

  /** Read the limits. If that fails, the known ones stay. */
  async load(): Promise<void> {
    try {
      const { scopes, role = "" } = await this.#read();
      this.store.set({ ...stateOf(scopes), role });
    } catch {
      // Show nothing: the server checks each message itself.
    }
  }

  /** Read them again once the turn that has just ended is charged. */
  refresh(): void {
    if (this.#planned) return;
    this.#planned = true;
    this.#clock.after(SETTLED_MS, () => {
      this.#planned = false;
      void this.load();
    });
  }
}

/** Return the tightest limit of each kind, and the reason for a stop if there is one. */
export function stateOf(scopes: readonly ScopeLimits[]): Omit<BudgetState, "role"> {
  const all = scopes.flatMap(leftsOf);
  const kinds: readonly LimitKind[] = ["usd", "tokens", "storage"];
  const lefts = kinds.flatMap((what) => {
    const [tightest] = all.filter((one) => one.what === what).sort((a, b) => part(a) - part(b));
    return tightest && (what !== "storage" || part(tightest) < STORAGE_SHOWN_BELOW) ? [tightest] : [];
  });
  return { lefts, stopped: scopes.map(({ limits }) => limits.stopped ?? "").find(Boolean) ?? "" };
}

function part({ left, of }: Left): number {
  return of > 0 ? left / of : 0;
}

function leftsOf({ scope: whose, limits, used, day_ends_at, month_ends_at }: ScopeLimits): readonly Left[] {
  const lefts: Left[] = [];
  const add = (what: LimitKind, window: Left["window"], of: number | null | undefined, spent = 0, endsAt = "") => {
    if (of !== null && of !== undefined) lefts.push({ what, window, whose, of, left: Math.max(of - spent, 0), endsAt });
  };
  add("usd", "day", limits.usd_day, used.usd_day, day_ends_at);
  add("usd", "month", limits.usd_month, used.usd_month, month_ends_at);
  add("tokens", "day", limits.tokens_day, used.tokens_day, day_ends_at);
  add("tokens", "month", limits.tokens_month, used.tokens_month, month_ends_at);
  add("storage", "", limits.storage_bytes, used.storage_bytes);
  return lefts;
}
