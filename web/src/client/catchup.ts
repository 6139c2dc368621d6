import type { Clock } from "./clock.ts";
import type { Pace } from "./pace.ts";
import { type ClientState, isBehind } from "./state.ts";

const DOUBLINGS = 6;

/** Schedules resumes. */
export class Catchup {
  /** True if the last resume was answered. */
  synced = true;
  /** Resumes since the last progress. */
  tries = 0;
  readonly #clock: Clock;
  readonly #pace: Pace;
  #dueMs = 0;
  #wasMissing = false;
  #cursor: number;

  constructor(clock: Clock, pace: Pace, cursor: number) {
    this.#clock = clock;
    this.#pace = pace;
    this.#cursor = cursor;
  }

  /** Record that a resume is sent now. */
  note(): void {
    this.synced = false;
    this.tries += 1;
    this.#dueMs = this.#clock.nowMs() + this.#pace.resumeAnswerS * 1000;
  }

  /**
   * Return when the next resume is due unless something arrives first. A new gap first gets time to close on its own.
   */
  dueMs(state: ClientState): number {
    const missing = isBehind(state);
    if (missing && !this.#wasMissing) {
      this.#dueMs = Math.max(this.#dueMs, this.#clock.nowMs() + this.#pace.gapS * 1000);
    }
    this.#wasMissing = missing;
    if (state.cursor !== this.#cursor || (!missing && this.synced)) {
      this.#cursor = state.cursor;
      this.tries = 0;
    }
    return missing || !this.synced ? this.#dueMs : Number.POSITIVE_INFINITY;
  }

  /** True if too many resumes in a row returned nothing. */
  get isSpent(): boolean {
    return this.tries >= this.#pace.resumes;
  }

  /** Delay the next resume, longer each time: the events may not be stored yet, or the server is busy. */
  putOff(): void {
    const waitS = this.#pace.resumeEveryS * 2 ** Math.min(this.tries, DOUBLINGS);
    this.#dueMs = this.#clock.nowMs() + (waitS / 2) * 1000;
  }

  /** Start over after a pause. */
  giveUp(): void {
    this.putOff();
    this.synced = true;
    this.tries = 0;
  }
}
