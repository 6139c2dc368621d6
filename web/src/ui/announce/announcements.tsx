/** The two live regions for screen readers: progress, and refusals. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import { shell } from "../../words/en/shell.ts";
import { reasonWords, sayHeld } from "../attachments/attachment_list.tsx";
import type { PendingFile } from "../attachments/attachments.ts";
import { sayRefused } from "../limits/limit_codes.ts";
import { browserClock } from "../store/clock.ts";
import type { ConversationState } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useSelector, useStore } from "../store/store.ts";
import { Announcer } from "./announcer.ts";
import { failureOf, newsOf } from "./news.ts";

/** States of a conversation that show only a sentence. */
const PHASES: Partial<Record<ConversationState["phase"], string>> = {
  missing: shell.thread.notFound,
  failed: shell.thread.failed,
  deleted: shell.erase.gone,
};

export function Announcements({ page }: { page: Page }) {
  const conversation = useStore(page.current);
  const [spoken, setSpoken] = useState("");
  const [failure, setFailure] = useState("");
  const announcer = useMemo(() => new Announcer(browserClock, setSpoken), []);
  useEffect(() => {
    let before = conversation.store.value.thread;
    setFailure("");
    return conversation.store.subscribe(() => {
      const after = conversation.store.value.thread;
      for (const news of newsOf(before, after, page.settings.value.reading)) announcer.announce(news);
      const failed = failureOf(before, after);
      if (failed !== null) setFailure(failed);
      before = after;
    });
  }, [conversation, announcer, page]);
  const alert = useSelector(conversation.store, (state) => state.alert);
  const refused = useSelector(conversation.store, (state) =>
    [...state.problems.values()].findLast((one) => !one.trying),
  );
  const phase = useSelector(conversation.store, (state) => state.phase);
  const { items } = useStore(conversation.composer.attachments.store);
  const file = items.findLast((item) => item.state === "refused" || item.state === "expired");
  const heldFor = useSelector(conversation.composer.draft, (draft) => draft.heldFor);
  const { held } = conversation.composer;
  const givenBack = useSelector(conversation.composer.draft, (draft) => draft.refusal);
  const shown = refused ?? alert;
  const words = PHASES[phase] ?? (file ? fileWords(file) : failure);
  return (
    <>
      <div class="vh" role="status" dir="auto">
        {spoken}
      </div>
      <div class="vh" role="alert">
        {givenBack
          ? sayRefused(givenBack.code, givenBack.message, givenBack.untilMs)
          : shown
            ? sayRefused(shown.code, shown.message)
            : heldFor.length > 0 && held.length > 0
              ? sayHeld(held, conversation.store.value.running ? "add" : "send", held.length < items.length)
              : words}
      </div>
    </>
  );
}

function fileWords(file: PendingFile): string {
  return `${visible(file.name)}: ${reasonWords(file)}`;
}
