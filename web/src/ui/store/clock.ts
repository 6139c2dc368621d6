/** Time and frames of the browser, so that everything that waits can be run by a clock of a test. */

export interface Clock {
  nowMs(): number;
  /** Run something once after a while; the function that is returned prevents it. */
  after(ms: number, run: () => void): () => void;
}

/** Runs something before the next picture is drawn. */
export type Frame = (run: () => void) => void;

/** The longest wait that a browser's timer takes. */
const TIMER_MAX_MS = 2 ** 31 - 1;
const HIDDEN_FRAME_MS = 250;

export const browserClock: Clock = {
  nowMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, Math.min(Math.max(ms, 0), TIMER_MAX_MS));
    return () => clearTimeout(timer);
  },
};

/** Run before the next picture; a page that is not seen has none, and goes by a timer. */
export const browserFrame: Frame = (run) => {
  if (document.visibilityState === "hidden") setTimeout(run, HIDDEN_FRAME_MS);
  else requestAnimationFrame(run);
};

/** A function that resolves after a while. */
export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}
