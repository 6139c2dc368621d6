/** How much of its budget a request had, by what was read from the cache, written to it, and neither. */

import type { Thread, Usage } from "../../thread/thread";
import { memo } from "../turn/memo";
import { compactionIsSaid } from "../turn/notice";
import { cachedPercent, partsOf, segments } from "../turn/receipt";
import { say } from "../turn/words";

export interface Measured {
  readonly usage: Usage;
  /** The round of that request, from 1. */
  readonly round: number;
  readonly maxTokens: number;
  /** What a compaction behind that request has made of it, null if none came. */
  readonly afterTokens: number | null;
}

/** The newest request that was counted, or null if there is none, or no budget is known. */
export function measuredRequest(thread: Thread): Measured | null {
  const maxTokens = thread.turns.at(-1)?.maxTokens ?? 0;
  if (maxTokens === 0) return null;
  let afterTokens: number | null = null;
  for (const turn of thread.turns.toReversed()) {
    for (const round of turn.rounds.toReversed()) {
      if (round.usage) return { usage: round.usage, round: round.iteration + 1, maxTokens, afterTokens };
      for (const item of round.items) {
        if (item.is !== "compaction") continue;
        const done = turn.compactions.find((known) => known.compactionId === item.compactionId);
        if (done?.ended && compactionIsSaid(done)) afterTokens ??= done.afterTokens;
      }
    }
  }
  return null;
}

const length = 272;
/** Older text is shortened down to this share of the budget. */
const target = 0.55;

export const Gauge = memo(function Gauge({ usage, round, maxTokens, afterTokens }: Measured) {
  const parts = { ...partsOf(usage), out: 0 };
  const read = parts.read + parts.write + parts.plain;
  const used = afterTokens ?? read;
  const perToken = length / Math.max(maxTokens, used);
  const percent = cachedPercent(usage);
  return (
    <section data-part="context" tabIndex={-1}>
      <h2 class="label">
        {say.context}
        <span>{say.ofTokens(used, maxTokens)}</span>
      </h2>
      <svg
        class="gauge"
        viewBox={`0 0 ${length} 18`}
        preserveAspectRatio="none"
        role="img"
        aria-label={say.gauge(used, maxTokens)}
      >
        <rect class="way" x="0" y="6" width={length} height="6" rx="1" />
        {afterTokens === null ? (
          segments(parts, perToken).map((bar) => (
            <rect key={bar.name} class={bar.name} x={bar.x} y="6" width={bar.width} height="6" />
          ))
        ) : (
          // Nobody has counted the classes since the compaction: the bar sinks to its estimate, without a colour.
          <rect class="estimate" x="0" y="6" width={Math.round(afterTokens * perToken)} height="6" />
        )}
        <rect class="tick" x={Math.round(length * target * 10) / 10} y="3" width="1" height="12" />
      </svg>
      <p class="aside">
        {afterTokens === null ? percent !== null && say.gaugeRead(percent, round) : say.gaugeAfter(afterTokens)}{" "}
        {say.gaugeAbove(maxTokens)}
      </p>
    </section>
  );
});
