/** Time and chance, injected: the session itself reads no clock and starts no timer. */

export interface Clock {
  /** Return epoch milliseconds. They go on while the machine sleeps. */
  nowMs(): number;
  /** Run something once in so many milliseconds; return what cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** Draws a number from 0 up to 1. */
export type Random = () => number;

/** Return a number between two, drawn by `random`. */
export function between(random: Random, low: number, high: number): number {
  return low + (high - low) * random();
}
