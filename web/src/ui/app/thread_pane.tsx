/** The thread of the open conversation, its margin, and an open file. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import { shell } from "../../words/en/shell.ts";
import type { Acts, Target, ThreadContext } from "../acts.ts";
import { FirstRun } from "../first/first_run.tsx";
import { Margin } from "../margin/index.ts";
import { type Route, threadOf } from "../route.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useSelector, useStore } from "../store/store.ts";
import { ThreadView } from "../turn/index.ts";
import { Guard } from "./guard.tsx";
import { useWidth } from "./layout.ts";
import { OpenFile } from "./lazy.tsx";
import { loadCodes } from "./load_later.ts";
import { Sheet } from "./sheet.tsx";
import { useModule } from "./use_module.ts";

interface PaneProps {
  readonly page: Page;
  readonly conversation: Conversation;
  readonly acts: Acts;
  readonly marginOpen: boolean;
  readonly closeMargin: () => void;
}

/** Within this distance of its end, a thread counts as read. */
const END_PX = 48;
const LOOK_MS = 250;

export function ThreadPane({ page, conversation, acts, marginOpen, closeMargin }: PaneProps) {
  const phase = useSelector(conversation.store, (state) => state.phase);
  const thread = useSelector(conversation.store, (state) => state.thread);
  const outbox = useSelector(conversation.store, (state) => state.outbox);
  const route = useStore(page.route);
  const width = useWidth();
  const context = useThreadContext(page, conversation, route);
  const pane = useReadMark(page, conversation);
  const codes = useModule(loadCodes);
  if (phase === "missing") return <Missing page={page} />;
  if (phase === "failed") return <Failed conversation={conversation} />;
  if (thread.turns.length === 0 && thread.loose.length === 0 && outbox.length === 0) {
    return phase === "loading" ? <div class="sheet" aria-busy="true" /> : <FirstRun page={page} acts={acts} />;
  }
  if (!codes) return <div class="sheet" aria-busy="true" />;
  const path = route.is === "thread" ? route.file : "";
  const closeFile = () => page.closeTo(threadOf(conversation.name));
  const file = path && (
    <Guard place={path}>
      <OpenFile page={page} conversation={conversation} path={path} onClose={closeFile} />
    </Guard>
  );
  return (
    <div class={file && width === "wide" ? "sheet reading" : "sheet"} ref={pane}>
      <ThreadView thread={thread} acts={acts} context={context} />
      {width === "wide" && (
        <Margin thread={thread} acts={acts} context={context}>
          {file}
        </Margin>
      )}
      {width !== "wide" && marginOpen && (
        <Sheet label={shell.bar.margin} place="end" onClose={closeMargin}>
          <Margin thread={thread} acts={acts} context={context} />
        </Sheet>
      )}
      {width !== "wide" && file && (
        <Sheet label={visible(path)} place="end" onClose={closeFile}>
          {file}
        </Sheet>
      )}
    </div>
  );
}

/** Items that the user has opened stay open as long as the conversation is shown. */
function useThreadContext(page: Page, conversation: Conversation, route: Route): ThreadContext {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const outbox = useSelector(conversation.store, (state) => state.outbox);
  const problems = useSelector(conversation.store, (state) => state.problems);
  const discarded = useSelector(conversation.store, (state) => state.discarded);
  const earlier = useSelector(conversation.store, (state) => state.earlier);
  const target = useTarget(conversation, route);
  const toggle = useMemo(
    () => (id: string) =>
      setOpen((before) => {
        const after = new Set(before);
        if (!after.delete(id)) after.add(id);
        return after;
      }),
    [],
  );
  return useMemo(
    () => ({
      conversation: conversation.name,
      open,
      toggle,
      now: () => conversation.serverClock.nowMs(),
      outbox,
      problems,
      discarded,
      target,
      past: conversation.past,
      edits: conversation.edits,
      earlier,
      stage: page.config.stage,
      inspect: page.mayInspect,
    }),
    [conversation, open, toggle, outbox, problems, discarded, target, earlier, page],
  );
}

/** The place from the address, or else the first unread turn; older pages are loaded for it. */
function useTarget(conversation: Conversation, route: Route): Target | null {
  const place = route.is === "thread" ? route.place : null;
  const unread = useSelector(conversation.store, (state) => state.firstUnread);
  const turns = useSelector(conversation.store, (state) => state.thread.turns);
  const earlier = useSelector(conversation.store, (state) => state.earlier);
  const missing = place !== null && !turns.some((turn) => turn.turnId === place.turnId);
  useEffect(() => {
    if (missing && earlier === "some") void conversation.loadEarlier();
  }, [missing, earlier, conversation]);
  return useMemo(() => place ?? (unread ? { turnId: unread, iteration: null, callId: "" } : null), [place, unread]);
}

/** Record on the server how far the user has read: everything, once the end is in view. */
function useReadMark(page: Page, conversation: Conversation) {
  const pane = useRef<HTMLDivElement>(null);
  const active = useSelector(page.list.store, (state) => state.feed.get(conversation.name)?.activeN ?? 0);
  const running = useSelector(conversation.store, (state) => state.running);
  const phase = useSelector(conversation.store, (state) => state.phase);
  const look = useMemo(
    () => () => {
      const scroller = pane.current?.querySelector(".thread");
      if (!scroller || document.visibilityState !== "visible" || Math.abs(scroller.scrollTop) > END_PX) return;
      page.list.markRead(conversation.name, conversation.cursor);
    },
    [page, conversation],
  );
  useEffect(() => {
    // The next render scrolls to the place from the address.
    const timer = setTimeout(look, LOOK_MS);
    return () => clearTimeout(timer);
  }, [look, active, running, phase]);
  useEffect(() => {
    // Scroll events do not bubble, and the scroller appears with the first turn.
    document.addEventListener("visibilitychange", look);
    document.addEventListener("scroll", look, { capture: true, passive: true });
    return () => {
      document.removeEventListener("visibilitychange", look);
      document.removeEventListener("scroll", look, { capture: true });
    };
  }, [look]);
  return pane;
}

function Missing({ page }: { page: Page }) {
  return (
    <div class="sheet">
      <div class="blank">
        <p>{shell.thread.notFound}</p>
        <button type="button" class="act" onClick={() => page.begin()}>
          {shell.thread.begin}
        </button>
      </div>
    </div>
  );
}

function Failed({ conversation }: { conversation: Conversation }) {
  return (
    <div class="sheet">
      <div class="blank">
        <p>{shell.thread.failed}</p>
        <button type="button" class="act" onClick={() => void conversation.load()}>
          {shell.thread.retry}
        </button>
      </div>
    </div>
  );
}
