/** A file that is being written: its growing text, scrolled to the end. It is not on the server yet. */

import type { VNode } from "preact";
import { CodeBlock, Markdown, type MarkdownContext, visible } from "../markdown/index.ts";
import type { Draft } from "../thread/thread.ts";
import { say } from "../words/en/preview.ts";
import { kindOf } from "./kind.ts";
import "./preview.css";

interface Props {
  readonly draft: Draft;
  readonly onClose: () => void;
  readonly context: MarkdownContext;
}

export function DraftPreview({ draft, onClose, context }: Props): VNode {
  const { text, whole, aborted } = draft.text;
  const name = visible(draft.name.slice(draft.name.lastIndexOf("/") + 1));
  const kind = kindOf("", draft.name);
  return (
    <section class="preview" aria-label={say.preview(name)} aria-busy={!whole}>
      <header>
        <h2 dir="ltr" title={visible(draft.name)}>
          {name}
        </h2>
        <span class="num">{aborted ? say.cutOff : whole ? "" : say.growing}</span>
        <button type="button" onClick={onClose}>
          {say.close}
        </button>
      </header>
      <div class={aborted ? "content growing aborted" : "content growing"}>
        <div>
          {kind.is === "markdown" ? (
            <Markdown text={text} growing={!whole} context={context} />
          ) : (
            // A table or a page can be rendered only once it is complete. Until then its source is shown.
            <CodeBlock code={text} language={kind.is === "text" ? kind.language : ""} whole={whole} />
          )}
        </div>
      </div>
    </section>
  );
}
