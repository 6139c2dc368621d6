/** The server's clock, as far as the page knows it: no event is from the future. */

import type { ClientEvent } from "../../client/index.ts";
import type { Clock } from "./clock.ts";

export class ServerClock {
  readonly #clock: Clock;
  #aheadMs: number | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  nowMs(): number {
    return this.#clock.nowMs() + (this.#aheadMs ?? 0);
  }

  /** Use the times of events that have just happened: the fastest one is the most precise. */
  apply(events: readonly ClientEvent[]): void {
    for (const event of events) {
      const aheadMs = Date.parse(event.ts) - this.#clock.nowMs();
      if (Number.isFinite(aheadMs)) this.#aheadMs = Math.max(this.#aheadMs ?? aheadMs, aheadMs);
    }
  }
}
