/** Sources and files: those of the newest turn first, all of them on a click. */

import { useState } from "preact/hooks";
import { isPlainClick, visible } from "../../markdown/index.ts";
import { hasNamesake } from "../../thread/files.ts";
import { sourcesOf } from "../../thread/select.ts";
import type { FileRow, Source, Thread } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatBytes } from "../../words/format.ts";
import { baseName, PathLink } from "../turn/bits.tsx";
import { SourceTitle } from "../turn/call.tsx";
import { placeOf } from "../turn/cite_card.tsx";
import { useCited } from "../turn/cited.ts";
import { type Desk, useDesk } from "../turn/desk.ts";
import { Icon } from "../turn/mark.tsx";
import { memo } from "../turn/memo.tsx";

const shown = 8;
const none: readonly Source[] = [];

interface MoreProps {
  readonly all: boolean;
  readonly setAll: (to: boolean) => void;
  readonly count: number;
  readonly ofLast: number;
}

function More({ all, setAll, count, ofLast }: MoreProps) {
  return (
    <button type="button" class="longer" aria-expanded={all} onClick={() => setAll(!all)}>
      {all ? say.showLess : `${say.openAll(count)}${say.ofLast(ofLast)}`}
    </button>
  );
}

function SourceRow({ source, on }: { source: Source; on: boolean }) {
  return (
    <li class="src">
      <span class={`cite ${on ? "on" : ""}`}>{source.sid}</span>
      <span>
        {source.url ? <SourceTitle title={source.title} url={source.url} /> : <PathLink path={source.path} />}
        <bdi class="num" dir="ltr">
          {visible(placeOf(source))}
        </bdi>
      </span>
    </li>
  );
}

/** The sources to show first: those of the newest turn that found or cites any. */
export function firstSources(thread: Thread): readonly Source[] {
  for (const turn of thread.turns.toReversed()) {
    const sources = sourcesOf(thread, turn);
    if (sources.length > 0) return sources;
  }
  return none;
}

interface SourcesProps {
  readonly first: readonly Source[];
  readonly sources: Thread["sources"];
  /** The number of loaded turns if older ones exist, else 0. */
  readonly ofLast: number;
}

export const Sources = memo(function Sources({ first, sources, ofLast }: SourcesProps) {
  const [all, setAll] = useState(false);
  const cited = useCited();
  if (sources.size === 0 && first.length === 0) return null;
  const rows = all ? [...sources.values()].sort((a, b) => a.sid - b.sid) : first;
  return (
    <section data-part="sources" tabIndex={-1}>
      <h2 class="label">
        {say.sources}
        <span>
          {rows.length || sources.size}
          {all && say.ofLast(ofLast)}
        </span>
      </h2>
      <ul>
        {rows.map((source) => (
          <SourceRow key={source.sid} source={source} on={cited?.sid === source.sid} />
        ))}
      </ul>
      {sources.size > first.length && <More {...{ all, setAll, ofLast }} count={sources.size} />}
    </section>
  );
});

const FileLine = memo(function FileLine({ file, turn }: { file: FileRow; turn: string }) {
  const desk = useDesk();
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    desk.acts.openFile(file.path);
  };
  return (
    <li>
      <a class="file" href={desk.pathHref(file.path)} onClick={open} title={visible(file.path)}>
        <Icon of="file" />
        <bdi class="name" dir="ltr">
          {visible(file.filename)}
        </bdi>
        {turn && <span class="pill">{turn}</span>}
        {file.times > 1 && (
          <span class="pill" role="img" aria-label={say.writtenTimes(file.times)}>
            {say.times(file.times)}
          </span>
        )}
        <span class="num">{formatBytes(file.sizeBytes)}</span>
      </a>
    </li>
  );
});

export interface Promised {
  readonly filename: string;
  readonly internal: boolean;
}

/** The files that the running programs of a thread have declared but not written yet. */
export function promisedFiles(thread: Thread): readonly Promised[] {
  const turn = thread.turns.at(-1);
  if (turn?.outcome.is !== "running") return [];
  return turn.rounds.flatMap((round) =>
    round.calls.flatMap((call) =>
      call.program && call.durationMs === null
        ? call.program.contract.map(({ filename, internal }) => ({ filename, internal }))
        : [],
    ),
  );
}

function nameOfTurn({ thread }: Desk, turnId: string): string {
  const at = thread.turns.findIndex((turn) => turn.turnId === turnId);
  return at < 0 ? "" : say.turn(thread.turnsBefore + at + 1);
}

interface FilesProps {
  readonly files: readonly FileRow[];
  readonly promised: readonly Promised[];
  /** The number of loaded turns if older ones exist, else 0. */
  readonly ofLast: number;
}

export function Files({ files, promised, ofLast }: FilesProps) {
  const [all, setAll] = useState(false);
  const desk = useDesk();
  if (files.length + promised.length === 0) return null;
  // Files with the same name show their turns.
  const turnOf = (file: FileRow) => (hasNamesake(files, file) ? nameOfTurn(desk, file.turnId) : "");
  const newestFirst = files.toReversed();
  return (
    <section data-part="files" tabIndex={-1}>
      <h2 class="label">
        {say.files}
        <span>
          {files.length}
          {say.ofLast(ofLast)}
        </span>
      </h2>
      <ul>
        {promised.map((file) => (
          <li key={file.filename} class="file soon" title={visible(file.filename)}>
            <Icon of="file" />
            <bdi class="name" dir="ltr">
              {visible(baseName(file.filename))}
            </bdi>
            {file.internal && <span class="pill">{say.internal}</span>}
            <span class="num">{say.promised.toLowerCase()}</span>
          </li>
        ))}
        {(all ? newestFirst : newestFirst.slice(0, shown)).map((file) => (
          <FileLine key={file.path} file={file} turn={turnOf(file)} />
        ))}
      </ul>
      {files.length > shown && <More {...{ all, setAll, ofLast }} count={files.length} />}
    </section>
  );
}
