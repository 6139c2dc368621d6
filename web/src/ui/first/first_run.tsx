/** An empty conversation: the mark, one sentence, and three examples. */

import { shell } from "../../words/en/shell.ts";
import type { Acts } from "../acts.ts";
import { Mark } from "../app/icons.tsx";
import type { Page } from "../store/page.ts";
import { useSelector } from "../store/store.ts";

const { first: words } = shell;

export function FirstRun({ page, acts }: { page: Page; acts: Acts }) {
  const first = useSelector(page.list.store, (state) => state.phase === "ready" && state.rows.length === 0);
  return (
    <div class="sheet">
      <div class="first">
        <Mark size={40} />
        <p class="said">{words.line}</p>
        <div class="chips">
          {words.examples.map((example, at) => (
            <button
              key={example}
              type="button"
              class="chip"
              title={example}
              onClick={(event) => (event.shiftKey ? acts.send(example) : acts.fillComposer(example))}
            >
              {words.labels[at]}
            </button>
          ))}
        </div>
        {first && page.config.stage === "local" && <p class="aside">{words.local}</p>}
      </div>
    </div>
  );
}
