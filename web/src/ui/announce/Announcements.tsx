/** The two places that a screen reader listens to: what goes on, and what was refused. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { wordsOf } from "../../words/index.ts";
import { browserClock } from "../store/clock.ts";
import type { Page } from "../store/page.ts";
import { useSelector, useStore } from "../store/store.ts";
import { Announcer } from "./announcer.ts";
import { newsOf } from "./news.ts";

export function Announcements({ page }: { page: Page }) {
  const conversation = useStore(page.current);
  const [spoken, setSpoken] = useState("");
  const announcer = useMemo(() => new Announcer(browserClock, setSpoken), []);
  useEffect(() => {
    let before = conversation.store.value.thread;
    return conversation.store.subscribe(() => {
      const after = conversation.store.value.thread;
      for (const news of newsOf(before, after, page.settings.value.reading)) announcer.tell(news);
      before = after;
    });
  }, [conversation, announcer, page]);
  const alert = useSelector(conversation.store, (state) => state.alert);
  const refused = useSelector(conversation.store, (state) =>
    [...state.troubles.values()].findLast((one) => !one.trying),
  );
  const shown = refused ?? alert;
  return (
    <>
      <div class="vh" role="status" dir="auto">
        {spoken}
      </div>
      <div class="vh" role="alert">
        {shown ? wordsOf(shown.code, shown.message) : ""}
      </div>
    </>
  );
}
