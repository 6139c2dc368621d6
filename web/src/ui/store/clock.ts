/** The browser's time and frames, injected so that tests can control every delay. */

export interface Clock {
  nowMs(): number;
  /** Run something once after a delay; the returned function cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** Runs something before the next frame is painted. */
export type Frame = (run: () => void) => void;

/** The longest delay of a browser's timer. */
const TIMER_MAX_MS = 2 ** 31 - 1;
const HIDDEN_FRAME_MS = 250;

export const browserClock: Clock = {
  nowMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, Math.min(Math.max(ms, 0), TIMER_MAX_MS));
    return () => clearTimeout(timer);
  },
};

/** Run before the next frame. A hidden page has no frames and uses a timer. */
export const browserFrame: Frame = (run) => {
  if (document.visibilityState === "hidden") setTimeout(run, HIDDEN_FRAME_MS);
  else requestAnimationFrame(run);
};

/** A function that resolves after a delay. */
export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}
