/** The sign of a footnote, and its explanation, linked to each other. */

import type { ComponentChildren, TargetedMouseEvent, VNode } from "preact";
import { say } from "../words/en/markdown.ts";
import { noteKey } from "./notes.ts";
import { visible } from "./visible.ts";

const NAME_CHARS = 24;

/** Return the id of an explanation, in letters and digits; `prefix` is the text's. */
function idOf(prefix: string, name: string): string {
  return prefix + Array.from(noteKey(name), (char) => char.codePointAt(0)?.toString(36)).join("-");
}

export function Reference({ name, prefix }: { name: string; prefix: string }): VNode {
  const id = idOf(prefix, name);
  const follow = (event: MouseEvent) => {
    const note = document.getElementById(id);
    if (!note || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    note.focus();
  };
  return (
    <sup>
      <a href={`#${id}`} aria-label={say.footnote(visible(name, NAME_CHARS))} onClick={follow}>
        {visible(name, NAME_CHARS)}
      </a>
    </sup>
  );
}

interface NoteProps {
  readonly name: string;
  readonly prefix: string;
  /** A duplicate of its name is not the target of its sign. */
  readonly first: boolean;
  readonly children: ComponentChildren;
}

export function Note({ name, prefix, first, children }: NoteProps): VNode {
  const id = idOf(prefix, name);
  const back = (event: TargetedMouseEvent<HTMLElement>) => {
    const text = event.currentTarget.closest(".md");
    text?.querySelector<HTMLElement>(`a[href="#${id}"]`)?.focus();
  };
  return (
    <div class="footnote" id={first ? id : undefined} tabIndex={-1}>
      <bdi>{visible(name, NAME_CHARS)}</bdi>
      <div dir="auto">{children}</div>
      {first && (
        <button type="button" aria-label={say.back(visible(name, NAME_CHARS))} onClick={back}>
          ↩
        </button>
      )}
    </div>
  );
}
