import type { Compaction, Round } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { wordsOf } from "../../words/index.ts";
import { Mark } from "./mark.tsx";

/**
 * A compaction that made the request smaller, or is about to. One that changed nothing is shown only in its opened
 * round.
 */
export function compactionIsShown(compaction: Compaction): boolean {
  return !compaction.ended || (compaction.afterTokens ?? compaction.beforeTokens) < compaction.beforeTokens;
}

export function CompactionLine({ compaction }: { compaction: Compaction }) {
  const { ended, beforeTokens, afterTokens, coveredTurns, reason } = compaction;
  if (!ended) {
    return (
      <p class="remark-line live">
        <Mark shape="running" tone="live" word={say.running} /> {say.compacting}
      </p>
    );
  }
  const smaller = afterTokens !== null && afterTokens < beforeTokens;
  return (
    <p class="remark-line">
      {smaller ? (
        <span class="num">{say.compacted(beforeTokens, afterTokens, coveredTurns)}</span>
      ) : (
        say.notCompacted(reason && wordsOf(reason, reason))
      )}
    </p>
  );
}

/** The compactions of a round that matter to every user, as lines on the rail before it. */
export function Compactions({ round, compactions }: { round: Round; compactions: readonly Compaction[] }) {
  const said = round.items.flatMap((item) =>
    item.is === "compaction"
      ? compactions.filter((known) => known.compactionId === item.compactionId && compactionIsShown(known))
      : [],
  );
  return (
    <>
      {said.map((compaction) => (
        <li key={compaction.compactionId} class="round quiet">
          <span class="clock num" />
          <div class="body">
            <span class="node" aria-hidden="true">
              Σ
            </span>
            <CompactionLine compaction={compaction} />
          </div>
        </li>
      ))}
    </>
  );
}
