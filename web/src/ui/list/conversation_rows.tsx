/** The list of conversations, by day. */

import { useEffect, useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import { waitsForApproval } from "../../thread/index.ts";
import { shell } from "../../words/en/shell.ts";
import { formatTime } from "../../words/index.ts";
import { Icon, Mark } from "../app/icons.tsx";
import { Link } from "../app/link.tsx";
import { HOME, threadOf } from "../route.ts";
import { SearchField } from "../search/search_field.tsx";
import type { Page } from "../store/page.ts";
import { useSelector, useStore } from "../store/store.ts";
import { type Day, groupByDay, rowsOfTrees, type TreeRow } from "./rows.ts";

const { list: words } = shell;
const QUIET_MS = 300;
const GREY_LINES = [0, 1, 2, 3, 4, 5, 6, 7];

/** The column of conversations: name, search, rows, and the signed-in user. */
export function Conversations({ page }: { page: Page }) {
  return (
    <nav class="side" aria-label={words.label}>
      <div class="brand">
        <Mark />
        {shell.name}
        <Link page={page} route={HOME} class="tool" label={words.fresh} onFollow={() => page.begin()}>
          <Icon name="plus" />
        </Link>
      </div>
      <SearchField page={page} />
      <ConversationRows page={page} />
      <div class="who">
        <span class="lamp" />
        {page.config.stage}
        <bdi class="num">{page.auth.user.name}</bdi>
      </div>
    </nav>
  );
}

/** The narrow strip that replaces the column next to the inspector. */
export function ConversationStrip({ page, openList }: { page: Page; openList: () => void }) {
  return (
    <nav class="side slim" aria-label={words.label}>
      <Link page={page} route={threadOf(page.current.value.name)} class="brand" label={shell.bar.chat}>
        <Mark />
      </Link>
      <button type="button" class="tool" aria-label={words.open} onClick={openList}>
        <Icon name="list" />
      </button>
      <Link page={page} route={HOME} class="tool" label={words.fresh} onFollow={() => page.begin()}>
        <Icon name="plus" />
      </Link>
    </nav>
  );
}

function ConversationRows({ page }: { page: Page }) {
  const { phase, rows, roots, next } = useStore(page.list.store);
  const current = useStore(page.current).name;
  const root = roots.get(current) || current;
  if (phase === "failed") return <Failed page={page} />;
  if (phase !== "ready" && rows.length === 0) return <Loading />;
  if (rows.length === 0) {
    return (
      <div class="rows">
        <p class="empty">{words.none}</p>
      </div>
    );
  }
  return (
    <div class="rows">
      {groupByDay(rowsOfTrees(rows), Date.now()).map((group) => (
        <section key={group.day} aria-label={words.days[group.day]}>
          <h2 class="label">{words.days[group.day]}</h2>
          {group.rows.map((row) => (
            <Row key={row.conversation} page={page} row={row} day={group.day} current={row.root === root} />
          ))}
        </section>
      ))}
      {next && (
        <button type="button" class="more" onClick={() => void page.list.loadMore()}>
          {words.more}
        </button>
      )}
    </div>
  );
}

interface RowProps {
  readonly page: Page;
  readonly row: TreeRow;
  readonly day: Day;
  readonly current: boolean;
}

function Row({ page, row, day, current }: RowProps) {
  // The open conversation's row uses the thread, which may be newer than the list; a tree has other branches, too.
  const open = useStore(page.current);
  const own = useSelector(open.store, (state) =>
    current && row.isAlone && state.phase === "ready" ? state.thread.state : "",
  );
  const title = useSelector(open.store, (state) => row.title || (current ? state.thread.title : ""));
  const state = own || row.state;
  const waits = useSelector(open.store, (here) => (own ? waitsForApproval(here.thread) : row.waits));
  const name = visible(title) || words.untitled;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Delete" || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    event.preventDefault();
    page.askToDelete(row.conversation);
  };
  return (
    // The link inside has the focus. The button next to it is for pointers and screen readers, not another tab stop.
    // biome-ignore lint/a11y/noStaticElementInteractions: the key belongs to the inner link
    <div class="row" onKeyDown={onKeyDown}>
      <Link
        page={page}
        route={threadOf(row.conversation)}
        current={current}
        class={row.unread ? "unread" : ""}
        keys="Delete"
      >
        <bdi>{name}</bdi>
        {waits ? (
          <span class="pill ask">{words.needsApproval}</span>
        ) : state === "in_progress" ? (
          <span class="lamp live" role="img" aria-label={words.running} title={words.running} />
        ) : state === "error" ? (
          <span class="lamp bad" role="img" aria-label={words.failed} title={words.failed} />
        ) : (
          <span class="num">{timeOf(row.at, day)}</span>
        )}
        {row.unread && <span class="vh">{words.unread}</span>}
      </Link>
      <button
        type="button"
        class="tool bin"
        tabIndex={-1}
        aria-label={shell.erase.delete(name)}
        onClick={() => page.askToDelete(row.conversation)}
      >
        <Icon name="bin" />
      </button>
    </div>
  );
}

const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

function timeOf(at: number, day: Day): string {
  if (at === 0) return "";
  return day === "today" || day === "yesterday" ? formatTime(at) : DATE.format(at);
}

/** Nothing for 300 ms, since most lists have loaded by then; then eight grey lines. */
function Loading() {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), QUIET_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="rows" aria-busy="true">
      {shown && GREY_LINES.map((line) => <span key={line} class="grey" />)}
    </div>
  );
}

function Failed({ page }: { page: Page }) {
  return (
    <div class="rows">
      <p class="empty">{words.offline}</p>
      <button type="button" class="more" onClick={() => void page.list.load()}>
        {words.retry}
      </button>
    </div>
  );
}
