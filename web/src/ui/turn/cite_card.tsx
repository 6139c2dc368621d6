/** The card of a cited source: at the chip's line in the margin, with a leader; a sheet if there is no margin. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { CITE_CARD_ID, visible } from "../../markdown/index.ts";
import type { Source } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { PathLink } from "./bits.tsx";
import { hostOf, SourceTitle } from "./call.tsx";
import { cite, useCited } from "./cited.ts";
import { useDesk } from "./desk.ts";
import { Icon } from "./mark.tsx";

/** The location of a source for people: host and path of an address, or a logical path. */
export function placeOf(source: Source): string {
  if (!source.url) return source.path;
  const host = hostOf(source.url);
  return host ? host + new URL(source.url).pathname.replace(/\/$/, "") : source.url;
}

export function CiteCard() {
  const desk = useDesk();
  const cited = useCited();
  const card = useRef<HTMLDivElement>(null);
  const source = cited && desk.source(cited.sid);
  useLayoutEffect(() => {
    const element = card.current;
    const frame = element?.offsetParent;
    if (!cited || !element || !frame) return;
    const chip = cited.chip.getBoundingClientRect();
    const box = frame.getBoundingClientRect();
    const lowest = box.height - element.offsetHeight - 8;
    const top = Math.max(Math.min(chip.top + chip.height / 2 - box.top - 16, lowest), 8);
    element.style.setProperty("--at", `${Math.round(top)}px`);
  }, [cited]);
  useLayoutEffect(() => {
    if (!cited) return;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      cite(cited.sid, null);
    };
    document.addEventListener("keydown", onKeyDown, true);
    return () => document.removeEventListener("keydown", onKeyDown, true);
  }, [cited]);
  if (!cited || !source) return null;
  return (
    <div class="hover" id={CITE_CARD_ID} role="note" ref={card}>
      <p class="num">
        <bdi dir="ltr">{visible(placeOf(source))}</bdi>
      </p>
      <strong>
        {source.url ? <SourceTitle title={source.title} url={source.url} /> : <PathLink path={source.path} />}
      </strong>
      {source.snippet && <p dir="auto">{source.snippet}</p>}
      <button type="button" class="tool close" aria-label={say.close} onClick={() => cite(cited.sid, null)}>
        <Icon of="close" />
      </button>
    </div>
  );
}
