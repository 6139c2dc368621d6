/** Injected clock and random source: the session itself reads no clock and starts no timer. */

export interface Clock {
  /** Return epoch milliseconds. The clock keeps running while the machine sleeps. */
  nowMs(): number;
  /** Run a function once after `ms` milliseconds; return a function that cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** Return a random number from 0 (inclusive) to 1 (exclusive). */
export type Random = () => number;

/** Return a random number between `low` and `high`. */
export function between(random: Random, low: number, high: number): number {
  return low + (high - low) * random();
}
