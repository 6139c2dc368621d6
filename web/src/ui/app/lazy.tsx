/** Views that load when they are first opened. */

import type { ComponentType } from "preact";
import { useMemo } from "preact/hooks";
import type { Live } from "../../inspect/rounds_list.ts";
import { type MarkdownContext, pathAddress } from "../../markdown/index.ts";
import { draftAt, openTurn, type Thread } from "../../thread/index.ts";
import type { FileRow } from "../../thread/thread.ts";
import { useReadout } from "../bar/use_readout.ts";
import type { ForkPlace } from "../branches/fork.ts";
import type { ForkOf } from "../branches/past.ts";
import { parseRoute, type Route } from "../route.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useSelector, useStore } from "../store/store.ts";
import { Picture } from "../turn/picture.tsx";
import { linkTo, makeActs } from "./acts.ts";
import { loadLater } from "./load_later.ts";
import { useModule } from "./use_module.ts";

interface InspectorProps {
  readonly conversation: string;
  readonly turn: string;
  readonly iteration: number;
  readonly view: string;
  readonly to: string;
  readonly letters: boolean;
  readonly progress: string;
  readonly live: Live | null;
  readonly newest: number;
  readonly forks: readonly ForkOf[];
  readonly fork: (place: ForkPlace) => void;
  readonly api: Page["api"];
  readonly navigate: (address: string) => void;
}

const loadInspector = () => import("../../inspect/index.tsx");
const loadAdmin = () => import("../../admin/index.ts");
const loadPreview = () => import("../../preview/index.ts");

export function Inspection({ page, route }: { page: Page; route: Route & { is: "timeline" } }) {
  const inspector = useModule(loadInspector);
  const { letters } = useStore(page.settings);
  const open = useStore(page.current);
  const { store } = open;
  const progress = useSelector(store, (state) => progressOf(state.thread));
  const newest = useSelector(store, (state) => state.thread.cursor);
  const forks = useSelector(open.past, (past) => past.forks);
  const live = useLive(open);
  const navigate = useMemo(
    () => (address: string) => {
      const [path = "", query = ""] = address.split("?");
      const next = parseRoute(path, query);
      if (next) page.go(next);
    },
    [page],
  );
  if (!inspector) return <div class="sheet" aria-busy="true" />;
  const Inspector: ComponentType<InspectorProps> = inspector.default;
  const { conversation, turnId, iteration, view, to } = route;
  return (
    <Inspector
      conversation={conversation}
      turn={turnId}
      iteration={iteration}
      view={view}
      to={to}
      letters={letters}
      progress={progress}
      live={live}
      newest={newest}
      forks={forks}
      fork={(place) => void loadLater().then(({ askToFork }) => askToFork(page, conversation, place))}
      api={page.api}
      navigate={navigate}
    />
  );
}

/** Return the running round. Its streamed text causes no new render. */
function useLive(conversation: Conversation): Live | null {
  const { store } = conversation;
  const turnId = useSelector(store, (state) => openTurn(state.thread)?.turnId ?? "");
  const iteration = useSelector(store, (state) => openTurn(state.thread)?.rounds.at(-1)?.iteration ?? 0);
  const doing = useReadout(conversation);
  return useMemo(() => (turnId ? { turnId, iteration, doing } : null), [turnId, iteration, doing]);
}

/** Return the progress of a thread's rounds in the log: the value changes with each decision and each end. */
export function progressOf(thread: Thread): string {
  const decided = thread.turns.at(-1)?.rounds.filter((round) => round.decidedAt !== null).length ?? 0;
  const ended = thread.turns.filter((turn) => turn.outcome.is !== "running").length;
  return `${thread.turns.length}.${ended}.${decided}`;
}

export function BundleView({ page, bundle }: { page: Page; bundle: string }) {
  const preview = useModule(loadPreview);
  const token = useMemo(() => () => page.auth.token(), [page]);
  if (!preview) return <div class="sheet" aria-busy="true" />;
  return <preview.BundleFrame key={bundle} bundle={bundle} httpUrl={page.config.http_url} token={token} />;
}

export function AdminLimits({ page, onClose }: { page: Page; onClose: () => void }) {
  const admin = useModule(loadAdmin);
  if (!admin) return <div aria-busy="true" />;
  return <admin.LimitsView api={page.api} onClose={onClose} />;
}

interface OpenFileProps {
  readonly page: Page;
  readonly conversation: Conversation;
  readonly path: string;
  readonly onClose: () => void;
}

/** A file of a conversation, by its logical path; while it is written, its text so far. */
export function OpenFile({ page, conversation, path, onClose }: OpenFileProps) {
  const preview = useModule(loadPreview);
  const known = useSelector(conversation.store, (state) => state.thread.files.find((file) => file.path === path));
  const draft = useSelector(conversation.store, (state) => draftAt(state.thread, path));
  const context = useMemo(() => contextOf(page, conversation), [page, conversation]);
  const file = useMemo(() => known ?? unknownFile(path), [known, path]);
  const open = useMemo(() => linkTo(page, conversation.name), [page, conversation]);
  if (!preview) return <div aria-busy="true" />;
  if (draft && (!known || !draft.text.whole)) {
    return <preview.DraftPreview draft={draft} onClose={onClose} context={context} />;
  }
  return <preview.FilePreview key={path} file={file} open={open} onClose={onClose} context={context} />;
}

/** Resolves links, paths and citations of a Markdown file. */
function contextOf(page: Page, conversation: Conversation): MarkdownContext {
  const { name } = conversation;
  const acts = makeActs(page, conversation);
  return {
    conversation: name,
    resolveSource: (sid) => conversation.store.value.thread.sources.get(sid),
    // The card of a source opens next to the thread, where the file is shown.
    onCite: () => undefined,
    onOpenPath: acts.openFile,
    drawPicture: (path, alt) => (
      <Picture path={path} alt={alt} version="whole" href={pathAddress(name, path)} acts={acts} whole />
    ),
  };
}

/** A file that the loaded pages do not list: its link supplies the rest. */
function unknownFile(path: string): FileRow {
  const filename = path.slice(path.lastIndexOf("/") + 1);
  return { path, filename, mime: "", sizeBytes: 0, sha256: "", callId: "", turnId: "", times: 1 };
}
