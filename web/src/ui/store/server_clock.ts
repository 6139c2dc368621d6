/** The server's clock, as well as the page knows it: events are never from the future. */

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

  /** Take the times of events that have just happened: the one that came fastest says most. */
  hear(events: readonly ClientEvent[]): void {
    for (const event of events) {
      const aheadMs = Date.parse(event.ts) - this.#clock.nowMs();
      if (Number.isFinite(aheadMs)) this.#aheadMs = Math.max(this.#aheadMs ?? aheadMs, aheadMs);
    }
  }
}
