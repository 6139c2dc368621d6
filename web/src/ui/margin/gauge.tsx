/** The share of its budget that a request used: read from the cache, written to it, and neither. */

import type { Context } from "../../thread/select.ts";
import type { Thread } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { memo } from "../turn/memo.tsx";
import { cachedPercent, segments } from "../turn/receipt.tsx";

/** The round, from 1, whose request was counted last; 0 if there was none. */
export function countedRound(thread: Thread): number {
  for (const turn of thread.turns.toReversed()) {
    const round = turn.rounds.findLast(({ usage }) => usage !== null);
    if (round) return round.iteration + 1;
  }
  return 0;
}

const length = 272;
/** Older text is shortened down to this share of the budget. */
const target = 0.55;

export const Gauge = memo(function Gauge({ context, round }: { context: Context; round: number }) {
  const { used, max, stack, estimated } = context;
  const perToken = length / Math.max(max, used);
  const percent = stack && cachedPercent(stack);
  return (
    <section data-part="context" tabIndex={-1}>
      <h2 class="label">
        {say.context}
        <span>
          {estimated && `${say.about} `}
          {say.ofTokens(used, max)}
        </span>
      </h2>
      <svg
        class="gauge"
        viewBox={`0 0 ${length} 18`}
        preserveAspectRatio="none"
        role="img"
        aria-label={say.gauge(used, max)}
      >
        <rect class="way" x="0" y="6" width={length} height="6" rx="1" />
        {stack ? (
          segments({ ...stack, output: 0 }, perToken).map((bar) => (
            <rect key={bar.name} class={bar.name} x={bar.x} y="6" width={bar.width} height="6" />
          ))
        ) : (
          // The classes are unknown since the compaction: the bar shrinks to its estimate, without a color.
          <rect class="estimate" x="0" y="6" width={Math.round(used * perToken)} height="6" />
        )}
        <rect class="tick" x={Math.round(length * target * 10) / 10} y="3" width="1" height="12" />
      </svg>
      <p class="aside">
        {stack ? percent !== null && say.gaugeRead(percent, round) : say.gaugeAfter(used)} {say.gaugeAbove(max)}
      </p>
    </section>
  );
});
