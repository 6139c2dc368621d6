/** The title bar: the conversation's title, its views, the current activity, and the menu. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import { waitsForApproval } from "../../thread/index.ts";
import { shell } from "../../words/en/shell.ts";
import { formatClock, wordsOf } from "../../words/index.ts";
import { Icon } from "../app/icons.tsx";
import { Link } from "../app/link.tsx";
import { MenuButton } from "../menu/menu_button.tsx";
import { type Route, threadOf } from "../route.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useSelector, useStore } from "../store/store.ts";
import { runsSince } from "./readout.ts";
import { useReadout } from "./use_readout.ts";

interface BarProps {
  readonly page: Page;
  readonly openList: () => void;
  readonly openMargin: () => void;
  readonly openKeys: () => void;
  readonly openLimits: () => void;
}

const TICK_MS = 100;

export function TitleBar({ page, openList, openMargin, openKeys, openLimits }: BarProps) {
  const conversation = useStore(page.current);
  const route = useStore(page.route);
  const [renaming, setRenaming] = useState(false);
  const title = useTitle(page, conversation);
  const isItsPage = route.is !== "search" && route.is !== "bundle";
  const begun = useSelector(conversation.store, (state) => state.thread.turns.length > 0) && isItsPage;
  return (
    <header class="bar">
      <button type="button" class="tool narrow" aria-label={shell.list.open} onClick={openList}>
        <Icon name="list" />
      </button>
      {renaming ? (
        <Rename page={page} conversation={conversation} title={title} onDone={() => setRenaming(false)} />
      ) : (
        <h1>
          <bdi key={title} class="fades">
            {visible(route.is === "search" ? shell.search.results : title)}
          </bdi>
        </h1>
      )}
      {begun && <Views page={page} conversation={conversation} route={route} />}
      <div class="end">
        {isItsPage && <Readout conversation={conversation} />}
        {begun && (
          <button type="button" class="tool narrow margin-tool" aria-label={shell.bar.margin} onClick={openMargin}>
            <Icon name="margin" />
          </button>
        )}
        <MenuButton
          page={page}
          conversation={conversation}
          begun={begun}
          onRename={() => setRenaming(true)}
          openKeys={openKeys}
          openLimits={openLimits}
        />
      </div>
    </header>
  );
}

/** Return the conversation's title from the thread, or else from the list. */
export function useTitle(page: Page, conversation: Conversation): string {
  const own = useSelector(conversation.store, (state) => state.thread.title);
  const phase = useSelector(conversation.store, (state) => state.phase);
  const listed = useSelector(page.list.store, (state) => state.feed.get(conversation.name)?.title ?? "");
  if (phase === "deleted") return shell.erase.goneTitle;
  return listed || own || (phase === "new" ? shell.list.fresh : shell.list.untitled);
}

function Views({ page, conversation, route }: { page: Page; conversation: Conversation; route: Route }) {
  const { name } = conversation;
  const turn = useSelector(conversation.store, (state) => state.thread.turns.at(-1));
  const inspects = page.mayInspect;
  if (!turn || !inspects) return null;
  const iteration = turn.rounds.at(-1)?.iteration ?? 0;
  const timeline: Route =
    route.is === "timeline"
      ? route
      : { is: "timeline", conversation: name, turnId: turn.turnId, iteration, view: "request", to: "" };
  const chat: Route =
    route.is === "timeline"
      ? {
          ...(threadOf(name) as Route & { is: "thread" }),
          place: { turnId: route.turnId, iteration: route.iteration, callId: "" },
        }
      : threadOf(name);
  return (
    <nav class="views" aria-label={shell.bar.views}>
      <Link page={page} route={chat} current={route.is !== "timeline"}>
        {shell.bar.chat}
      </Link>
      <Link page={page} route={timeline} current={route.is === "timeline"}>
        {shell.bar.timeline}
      </Link>
    </nav>
  );
}

function Readout({ conversation }: { conversation: Conversation }) {
  const text = useReadout(conversation);
  const since = useSelector(conversation.store, (state) => runsSince(state.thread));
  const link = useSelector(conversation.store, (state) => state.link.is);
  const asks = useSelector(conversation.store, (state) => !state.stopping && waitsForApproval(state.thread));
  if (since === null) return <span class="readout">{text}</span>;
  if (asks) {
    // Nothing runs, so there is neither amber nor a clock.
    return (
      <span class="readout ask">
        <span class="lamp" />
        <span class="doing">{text}</span>
      </span>
    );
  }
  return (
    // Amber means that something is known to be running now.
    <span class={link === "lost" ? "readout" : "readout live"}>
      <span class={link === "lost" ? "lamp" : "lamp live"} />
      <span class="doing">{text}</span>
      <span aria-hidden="true">·</span>
      <RunningClock conversation={conversation} since={since} />
    </span>
  );
}

/** The clock of the running turn. It writes into its own text node: nothing else renders ten times a second. */
function RunningClock({ conversation, since }: { conversation: Conversation; since: number }) {
  const output = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const show = () => {
      if (output.current) output.current.textContent = formatClock(conversation.serverClock.nowMs() - since);
    };
    show();
    const timer = setInterval(show, TICK_MS);
    return () => clearInterval(timer);
  }, [conversation, since]);
  return <span ref={output} aria-hidden="true" />;
}

interface RenameProps {
  readonly page: Page;
  readonly conversation: Conversation;
  readonly title: string;
  readonly onDone: () => void;
}

function Rename({ page, conversation, title, onDone }: RenameProps) {
  const field = useRef<HTMLInputElement>(null);
  const [refusal, setRefusal] = useState("");
  // Select before the user can type. Selecting later would overwrite the first letters of the new title.
  useLayoutEffect(() => field.current?.select(), []);
  const save = async () => {
    const next = field.current?.value.trim() ?? "";
    if (!next || next === title) return onDone();
    try {
      await page.api.renameConversation(conversation.name, { title: next });
      onDone();
    } catch (error) {
      setRefusal(wordsOf((error as { code?: string }).code ?? "", shell.bar.refused("")));
    }
  };
  return (
    <form
      class="rename"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <input
        ref={field}
        defaultValue={title}
        aria-label={shell.bar.title}
        maxLength={80}
        dir="auto"
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          onDone();
        }}
      />
      <button type="submit" class="act">
        {shell.bar.save}
      </button>
      <button type="button" class="act" onClick={onDone}>
        {shell.bar.cancel}
      </button>
      {refusal && <span role="alert">{refusal}</span>}
    </form>
  );
}
