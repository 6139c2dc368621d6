/** The page of a signed-in user: list, bar, thread or another view, composer, and overlays. */

import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import { waitsForApproval } from "../../thread/index.ts";
import { say } from "../../words/en/limits.ts";
import { shell } from "../../words/en/shell.ts";
import { wordsOf } from "../../words/index.ts";
import { TitleBar, useTitle } from "../bar/title_bar.tsx";
import { Composer, FIELD } from "../composer/composer.tsx";
import { ConnectionBanner } from "../connection/connection_banner.tsx";
import { keepFocus } from "../keys/keep_focus.ts";
import { LeftLine } from "../limits/left_line.tsx";
import { ConversationStrip, Conversations } from "../list/conversation_rows.tsx";
import { countWaiting } from "../list/rows.ts";
import { formatRoute, type Route } from "../route.ts";
import { applyTheme } from "../settings/settings.ts";
import type { Page } from "../store/page.ts";
import { useSelector, useStore } from "../store/store.ts";
import { makeActs } from "./acts.ts";
import { Guard } from "./guard.tsx";
import { useWidth } from "./layout.ts";
import { AdminLimits, BundleView, Inspection } from "./lazy.tsx";
import { loadLater } from "./load_later.ts";
import { Sheet } from "./sheet.tsx";
import { ThreadPane } from "./thread_pane.tsx";
import { useDrop } from "./use_drop.ts";
import { type Over, useKeys } from "./use_keys.ts";
import { useModule } from "./use_module.ts";

export function App({ page }: { page: Page }) {
  const route = useStore(page.route);
  const conversation = useStore(page.current);
  const settings = useStore(page.settings);
  const width = useWidth();
  const [over, setOver] = useState<Over>("none");
  const acts = useMemo(() => makeActs(page, conversation), [page, conversation]);
  useKeys(page, over, setOver);
  useEffect(() => keepFocus(document), []);
  useEffect(() => applyTheme(document.documentElement, settings.theme), [settings.theme]);
  useEffect(() => setOver("none"), [route]);
  useWindowTitle(page);
  useNotifications(page, settings.notify);
  useFieldOfNew(route);
  const close = () => setOver("none");
  const views = {
    list: () => setOver("list"),
    margin: () => setOver("margin"),
    keys: () => setOver("keys"),
    limits: () => setOver("limits"),
  };
  const inspects = route.is === "timeline";
  const column = width !== "wide" ? "none" : inspects ? "strip" : "rows";
  return (
    <>
      <SkipLinks />
      <div class={`app ${width} ${{ none: "single", strip: "inspecting", rows: "" }[column]}`}>
        {column === "rows" && <Conversations page={page} />}
        {column === "strip" && <ConversationStrip page={page} openList={views.list} />}
        <main class="desk">
          <TitleBar
            page={page}
            openList={views.list}
            openMargin={views.margin}
            openKeys={views.keys}
            openLimits={views.limits}
          />
          <Lines page={page} />
          <Guard place={formatRoute(route)}>
            <View
              page={page}
              acts={acts}
              hasField={column === "rows"}
              marginOpen={over === "margin"}
              closeMargin={close}
            />
          </Guard>
        </main>
        <Later page={page} keys={over === "keys"} onClose={close} />
      </div>
      {over === "list" && (
        <Sheet label={shell.list.label} place="start" onClose={close}>
          <Conversations page={page} />
        </Sheet>
      )}
      {over === "limits" && (
        <Sheet label={say.title} place="end" onClose={close}>
          <AdminLimits page={page} onClose={close} />
        </Sheet>
      )}
    </>
  );
}

function SkipLinks() {
  const toAnswer = (event: MouseEvent) => {
    event.preventDefault();
    const answer = [...document.querySelectorAll<HTMLElement>(".thread .say")].at(-1);
    if (!answer) return;
    answer.tabIndex = -1;
    answer.focus();
  };
  return (
    <nav aria-label={shell.thread.skip}>
      <a class="skip" href={`#${FIELD}`}>
        {shell.thread.field}
      </a>
      <a class="skip" href={`#${FIELD}`} onClick={toAnswer}>
        {shell.thread.answer}
      </a>
    </nav>
  );
}

interface ViewProps {
  readonly page: Page;
  readonly acts: ReturnType<typeof makeActs>;
  /** The search field is in the column. */
  readonly hasField: boolean;
  readonly marginOpen: boolean;
  readonly closeMargin: () => void;
}

/** The view in the middle, by the address. */
function View({ page, acts, hasField, marginOpen, closeMargin }: ViewProps) {
  const route = useStore(page.route);
  const conversation = useStore(page.current);
  const signedOut = useStore(page.signedOut);
  const refused = useSelector(conversation.store, (state) => state.link.is === "refused");
  const phase = useSelector(conversation.store, (state) => state.phase);
  const drop = useDrop(page.config.uploads ? conversation.composer.attachments : null);
  if (route.is === "search" || (phase === "deleted" && route.is !== "bundle")) {
    return <LaterView page={page} hasField={hasField} />;
  }
  if (route.is === "timeline") return <Inspection page={page} route={route} />;
  if (route.is === "bundle") return <BundleView page={page} bundle={route.bundle} />;
  return (
    // Files can be dropped anywhere; the button "Attach" does the same by keyboard.
    <div class={`talk ${phase === "new" ? "blank-talk" : ""} ${drop.over ? "dropping" : ""}`} {...drop.handlers}>
      {/* If this view fails to render, the composer below keeps its text. */}
      <Guard key={conversation.name} place={formatRoute(route)}>
        <ThreadPane
          page={page}
          conversation={conversation}
          acts={acts}
          marginOpen={marginOpen}
          closeMargin={closeMargin}
        />
      </Guard>
      {phase !== "missing" && (
        <footer class="dock">
          <Composer
            key={conversation.name}
            conversation={conversation}
            uploads={page.config.uploads}
            signedOut={signedOut || refused}
          />
          <LeftLine budget={page.budget} />
        </footer>
      )}
    </div>
  );
}

/** The views that load after the first render: the search, and the page of a deleted conversation. */
function LaterView({ page, hasField }: { page: Page; hasField: boolean }) {
  const later = useModule(loadLater);
  const route = useStore(page.route);
  const conversation = useStore(page.current);
  if (!later) return <div class="sheet" aria-busy="true" />;
  if (route.is === "search") return <later.SearchPage page={page} query={route.query} field={!hasField} />;
  return <later.Deleted page={page} conversation={conversation} />;
}

/** Overlays, and the live regions. */
function Later({ page, keys, onClose }: { page: Page; keys: boolean; onClose: () => void }) {
  const later = useModule(loadLater, () => page.notice.set(shell.thread.broken));
  const { letters } = useStore(page.settings);
  const conversation = useStore(page.current);
  if (!later) return null;
  const setLetters = (on: boolean) => page.settings.update({ letters: on });
  return (
    <>
      {keys && <later.KeysSheet letters={letters} setLetters={setLetters} onClose={onClose} />}
      <later.Confirm page={page} />
      <later.Announcements page={page} />
      <later.PastReader page={page} conversation={conversation} />
    </>
  );
}

/** Lines below the bar: about the connection, the page, and missed turns. */
function Lines({ page }: { page: Page }) {
  const notice = useStore(page.notice);
  const conversation = useStore(page.current);
  const signedOut = useStore(page.signedOut);
  const alert = useSelector(conversation.store, (state) => state.alert);
  const unknown = useSelector(conversation.store, (state) => state.thread.unknown);
  const meanwhile = useSelector(conversation.store, (state) => state.meanwhile);
  return (
    <div class="notices">
      <ConnectionBanner page={page} conversation={conversation} signedOut={signedOut} />
      {notice && <Line text={notice} onDismiss={() => page.notice.set("")} />}
      {alert && (
        <Line text={wordsOf(alert.code, alert.message)} onDismiss={() => conversation.store.update({ alert: null })} />
      )}
      {page.debug && unknown.size > 0 && (
        <p class="banner">{[...unknown].map(([name, count]) => `${visible(name)} ×${count}`).join(" · ")}</p>
      )}
      {meanwhile > 0 && (
        <Line
          text={shell.connection.meanwhile(meanwhile)}
          onDismiss={() => conversation.store.update({ meanwhile: 0 })}
        />
      )}
    </div>
  );
}

function Line({ text, onDismiss }: { text: string; onDismiss: () => void }) {
  return (
    <p class="banner" role="status">
      {text}
      <button type="button" class="act" onClick={onDismiss}>
        {shell.notice.dismiss}
      </button>
    </p>
  );
}

/** The focus of a new conversation starts in the input. */
function useFieldOfNew(route: Route): void {
  useLayoutEffect(() => {
    if (route.is === "new") document.getElementById(FIELD)?.focus();
  }, [route]);
}

function useWindowTitle(page: Page): void {
  const open = useStore(page.current);
  const title = useTitle(page, open);
  const here = useSelector(open.store, (state) => (state.phase === "ready" ? waitsForApproval(state.thread) : null));
  const waiting = useSelector(page.list.store, (state) => countWaiting(state.rows, open.name, here));
  useEffect(() => {
    const mark = waiting > 0 ? `● ${shell.list.needApproval(waiting)} · ` : "";
    document.title = `${mark}${visible(title)} · ${shell.name}`;
  }, [title, waiting]);
}

/** Show notifications while the page is hidden, if the user enabled them. */
function useNotifications(page: Page, wanted: boolean): void {
  useEffect(() => {
    if (!wanted) return;
    let stop: (() => void) | null = null;
    const gone = new AbortController();
    void import("../notify/notify.ts").then(({ browserNotices, watchList }) => {
      if (!gone.signal.aborted) stop = watchList(page.list.store, browserNotices(page));
    });
    return () => {
      gone.abort();
      stop?.();
    };
  }, [page, wanted]);
}
