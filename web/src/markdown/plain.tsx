/** A line that is too long to parse: its beginning, and all of it on request. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { say } from "../words/en/markdown.ts";

const SHOWN_CHARS = 4_096;

export function Plain({ text }: { text: string }): VNode {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > SHOWN_CHARS;
  return (
    <div class="cut">
      <p class="raw" dir="auto">
        {cut ? `${text.slice(0, SHOWN_CHARS)}…` : text}
      </p>
      {cut && (
        <button type="button" onClick={() => setAll(true)}>
          {say.allText(text.length)}
        </button>
      )}
    </div>
  );
}
