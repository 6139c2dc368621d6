/** An empty conversation: the mark, one sentence, and suggestions. */

import { shell } from "../../words/en/shell.ts";
import type { Acts } from "../acts.ts";
import { Mark } from "../app/icons.tsx";
import type { Page } from "../store/page.ts";
import { useSelector } from "../store/store.ts";

const { first: words } = shell;

export function FirstRun({ page, acts }: { page: Page; acts: Acts }) {
  const first = useSelector(page.list.store, (state) => state.phase === "ready" && state.rows.length === 0);
  const offered =
    page.config.suggestions?.map(
      (text) => words.suggestions.find((row) => row.text === text) ?? { label: text, text },
    ) ?? words.suggestions.filter((row) => row.anyModel);
  return (
    <div class="sheet">
      <div class="first">
        <Mark size={40} />
        <p class="said">{words.line}</p>
        <div class="chips">
          {offered.map(({ label, text }) => (
            <button
              key={text}
              type="button"
              class="chip"
              title={text}
              onClick={(event) => (event.shiftKey ? acts.send(text) : acts.fillComposer(text))}
            >
              {label}
            </button>
          ))}
        </div>
        {/* Its space is reserved before the list says whether it is needed. */}
        {page.config.stage === "local" && <p class="aside">{first && words.local}</p>}
      </div>
    </div>
  );
}
