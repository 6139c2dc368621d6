/** Small parts of several cards: a path, a running time, a long text, a fold. */

import { useState } from "preact/hooks";
import { isPlainClick, visible } from "../../markdown/index.ts";
import { say } from "../../words/en/thread.ts";
import { formatMs } from "../../words/format.ts";
import { useDesk, useNow } from "./desk.ts";

export const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1) || path;

/** A logical path as a link to its preview. */
export function PathLink({ path, whole = false }: { path: string; whole?: boolean }) {
  const desk = useDesk();
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    desk.acts.openFile(path);
  };
  return (
    <a class="path" href={desk.pathHref(path)} onClick={open} title={visible(path)}>
      <bdi dir="ltr">{visible(whole ? path : baseName(path))}</bdi>
    </a>
  );
}

/** The running time since `from`. A deadline is shown in seconds, because it was set in seconds. */
export function Elapsed({ from, deadline = null }: { from: number; deadline?: number | null }) {
  const since = Math.max(useNow(true) - from, 0);
  // Whole seconds: an unreadably fast digit would only be restless.
  const time = formatMs(Math.floor(since / 1000) * 1000);
  return <>{deadline === null ? time : say.ofDeadline(time, Math.round((deadline - from) / 1000))}</>;
}

/** Plain text, cut to its first lines until a click. */
export function LongText({ text, lines = 6, chars = 600 }: { text: string; lines?: number; chars?: number }) {
  const [all, setAll] = useState(false);
  const long = text.length > chars || text.split("\n", lines + 1).length > lines;
  const first = () => text.slice(0, chars).split("\n").slice(0, lines).join("\n");
  return (
    <>
      <pre class="plain-text" dir="auto">
        {all || !long ? text : `${first()}…`}
      </pre>
      {long && (
        <button type="button" class="longer" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? say.showLess : say.showAll}
        </button>
      )}
    </>
  );
}
