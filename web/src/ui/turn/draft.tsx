/** A file, or a text of the timeline, while it is written. */

import { useState } from "preact/hooks";
import { CodeBlock, isPlainClick, parsePath, visible } from "../../markdown/index.ts";
import { draftPath } from "../../thread/select.ts";
import type { Draft } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { useDesk } from "./desk.ts";
import { Icon, Mark } from "./mark.tsx";
import { memo } from "./memo.tsx";

function languageOf(draft: Draft): string {
  const ending = /\.([a-z0-9]+)$/i.exec(draft.name)?.[1];
  return ending?.toLowerCase() ?? (draft.format === "html" ? "html" : "");
}

/** The text and its state. It grows at the end of its pane; once complete, it is a line with its size. */
export const DraftCard = memo(function DraftCard(props: { turnId: string; draft: Draft; live: boolean }) {
  const { turnId, draft, live } = props;
  const desk = useDesk();
  const { text, whole, aborted } = draft.text;
  const grows = live && !whole;
  const [open, setOpen] = useState<boolean | null>(null);
  const shown = open ?? (grows || aborted !== "");
  const path = parsePath(draftPath(turnId, draft), desk.context.conversation);
  const preview = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    desk.acts.openFile(path);
  };
  const name = draft.name ? visible(draft.name) : say.draft;
  return (
    <section class={`card draft-card ${aborted ? "aborted" : ""}`} aria-label={name}>
      <header>
        {grows ? <Mark shape="running" tone="live" word={say.writing} /> : <Icon of="file" />}
        <h3>
          <button type="button" aria-expanded={shown} onClick={() => setOpen(!shown)}>
            <bdi dir="ltr">{name}</bdi>
          </button>
        </h3>
        <span class="num">{say.characters([...text].length)}</span>
        {path && (
          <a href={desk.pathHref(path)} onClick={preview} aria-label={`${say.preview}: ${name}`}>
            {say.preview}
          </a>
        )}
        {grows && <span class="pill live">{say.writing}</span>}
        {aborted && <span class="pill">{say.cutOff}</span>}
      </header>
      {aborted && <p class="why inner">{say.aborted[aborted] ?? aborted}</p>}
      {shown && text && (
        <div class="write-pane">
          <div>
            <CodeBlock code={text} language={languageOf(draft)} whole={whole} />
          </div>
        </div>
      )}
    </section>
  );
});
