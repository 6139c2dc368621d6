/** A call that runs a program: its source, its output, and its declared files. */

import { CodeBlock, visible } from "../../markdown/index.ts";
import type { Call, Program } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatBytes, formatMs } from "../../words/format.ts";
import { baseName, Elapsed, LongText, PathLink } from "./bits.tsx";
import { CallTime, FailureReason, Params, Paths, StatePill } from "./call.tsx";
import { useDesk } from "./desk.ts";
import { CallMark, Icon, Mark } from "./mark.tsx";
import { Tabs } from "./tabs.tsx";

/** Return the number of lines of a text: an unterminated last line counts, an empty one does not. */
function lineCount(text: string): number {
  if (text === "") return 0;
  const ends = text.split("\n").length;
  return text.endsWith("\n") ? ends - 1 : ends;
}

/** The declared file's path once it is written: a contract names it relative to its turn's folder. */
function pathOf(filename: string, call: Call): string | undefined {
  return call.paths.find((path) => path.endsWith(filename) && /^[./:]$/.test(path.at(-filename.length - 1) ?? ""));
}

/** A program that was launched and has not ended. */
function isUnderWay({ state, startedAt }: Program): boolean {
  return startedAt !== null && (state === "starting" || state === "running" || state === "collecting");
}

function ProgramMark({ call, program }: { call: Call; program: Program }) {
  if (call.state !== "written" && call.state !== "running") return <CallMark state={call.state} />;
  if (program.state === "writing") return <Mark shape="running" tone="live" word={say.programState.writing} />;
  if (isUnderWay(program)) return <Mark shape="running" tone="live" word={say.programState[program.state]} />;
  return <CallMark state={call.state} />;
}

function ProgramPill({ call, program }: { call: Call; program: Program }) {
  const over = call.state !== "written" && call.state !== "running";
  if (over) return <StatePill state={call.state} />;
  const live = program.state !== "ready";
  return <span class={`pill ${live ? "live" : ""}`}>{say.programState[program.state]}</span>;
}

function ProgramTime({ call, program }: { call: Call; program: Program }) {
  if (isUnderWay(program) && program.startedAt !== null && call.durationMs === null) {
    return <Elapsed from={program.startedAt} deadline={program.deadline} />;
  }
  return <CallTime call={call} />;
}

function PromisedFile(props: { call: Call; file: Program["contract"][number]; described?: boolean }) {
  const { call, file, described = false } = props;
  const desk = useDesk();
  const path = pathOf(file.filename, call);
  const row = path === undefined ? undefined : desk.thread.files.find((known) => known.path === path);
  return (
    <li class={path === undefined ? "soon" : ""}>
      <p class={path === undefined ? "file soon" : "file"} title={visible(file.filename)}>
        <Icon of="file" />
        {path === undefined ? <bdi dir="ltr">{visible(baseName(file.filename))}</bdi> : <PathLink path={path} />}
        {file.internal && <span class="pill">{say.internal}</span>}
        {row && <span class="num">{formatBytes(row.sizeBytes)}</span>}
      </p>
      {described && file.description && (
        <p class="aside" dir="auto">
          {file.description}
        </p>
      )}
    </li>
  );
}

function Time({ name, ms }: { name: string; ms: number | null }) {
  if (ms === null) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd class="num">{formatMs(ms)}</dd>
    </>
  );
}

/** The time that a finished program took, by phase. */
function Times({ program }: { program: Program }) {
  return (
    <>
      <Time name={say.started} ms={program.startMs} />
      <Time name={say.ran} ms={program.execMs} />
      <Time name={say.collected} ms={program.collectMs} />
    </>
  );
}

/** The current phase of a program and its duration so far; before that, the finished phases. */
function TimesNow({ program }: { program: Program }) {
  const { state, startedAt, ranAt, endedAt } = program;
  if (!isUnderWay(program) || startedAt === null) return null;
  const [name, from] =
    state === "starting"
      ? [say.startingFor, startedAt]
      : state === "running"
        ? [say.runningFor, ranAt]
        : [say.collectingFor, endedAt];
  return (
    <>
      {ranAt !== null && <Time name={say.started} ms={Math.max(ranAt - startedAt, 0)} />}
      {ranAt !== null && endedAt !== null && <Time name={say.ran} ms={Math.max(endedAt - ranAt, 0)} />}
      {from !== null && (
        <>
          <dt>{name}</dt>
          <dd class="num">
            <Elapsed from={from} />
          </dd>
        </>
      )}
    </>
  );
}

function Facts({ call, program }: { call: Call; program: Program }) {
  const missing = program.contract.filter((file) => pathOf(file.filename, call) === undefined).length;
  return (
    <div class="facts">
      {program.objective && <p dir="auto">{program.objective}</p>}
      <dl>
        {program.codegenMs !== null && (
          <>
            <dt>{say.writtenIn}</dt>
            <dd class="num">{formatMs(program.codegenMs)}</dd>
          </>
        )}
        {call.durationMs === null ? <TimesNow program={program} /> : <Times program={program} />}
      </dl>
      {program.contract.length > 0 && (
        <div>
          <p class="label">{missing > 0 ? say.promised : say.written}</p>
          <ul>
            {program.contract.map((file) => (
              <PromisedFile key={file.filename} call={call} file={file} />
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

function ProgramTab({ call, program }: { call: Call; program: Program }) {
  const { code } = program;
  return (
    <div class="run">
      {code.text ? (
        <CodeBlock code={code.text} language={program.language || "python"} whole={code.whole} />
      ) : (
        <p class="aside sub">{say.noCode}</p>
      )}
      <Facts call={call} program={program} />
    </div>
  );
}

function LogTab({ program }: { program: Program }) {
  const { base, text, whole, bytes } = program.log;
  if (!text && base === 0) return <p class="aside sub">{whole ? say.logEmpty : say.logWaits}</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard
    <section class="log-pane" tabIndex={0} aria-label={say.log}>
      {/* The pane is a reversed column with one child: it stays scrolled to its end while the log grows. */}
      <div>
        {base > 0 && <p class="aside">{say.earlierLog(base)}</p>}
        <pre dir="ltr">{text}</pre>
        {whole && bytes !== null && base > 0 && <p class="aside">{say.logEnd(formatBytes(bytes))}</p>}
      </div>
    </section>
  );
}

function FilesTab({ call, program }: { call: Call; program: Program }) {
  const promised = program.contract.map((file) => pathOf(file.filename, call));
  const others = call.paths.filter((path) => !promised.includes(path));
  if (program.contract.length + others.length === 0) return <p class="aside sub">{say.noFiles}</p>;
  return (
    <div class="sub files-tab">
      <ul>
        {program.contract.map((file) => (
          <PromisedFile key={file.filename} call={call} file={file} described />
        ))}
      </ul>
      {others.length > 0 && <Paths paths={others} />}
    </div>
  );
}

function filesCount(call: Call, program: Program): string {
  const of = program.contract.length;
  if (of === 0) return call.paths.length > 0 ? String(call.paths.length) : "";
  return `${program.contract.filter((file) => pathOf(file.filename, call) !== undefined).length}/${of}`;
}

export function ProgramCard({ call, program }: { call: Call; program: Program }) {
  const name = program.name ? visible(program.name) : say.program;
  const code = program.errorCode || call.code;
  const lines = lineCount(program.code.text);
  const printed = lineCount(program.log.text);
  return (
    <section class={`card program ${call.state}`} data-call={call.callId} aria-label={say.programNamed(name)}>
      <header>
        <ProgramMark call={call} program={program} />
        <h3>
          <bdi>{name}</bdi>
        </h3>
        <code class="tid" dir="ltr">
          {visible(call.toolId)}
        </code>
        <span class="num">
          <ProgramTime call={call} program={program} />
        </span>
        <ProgramPill call={call} program={program} />
      </header>
      {code && (
        <div class="inner">
          <FailureReason code={code} state={call.state} />
        </div>
      )}
      <Tabs
        label={name}
        tabs={[
          {
            name: say.program,
            count: lines > 0 ? String(lines) : "",
            panel: <ProgramTab call={call} program={program} />,
          },
          { name: say.log, count: printed > 0 ? String(printed) : "", panel: <LogTab program={program} /> },
          { name: say.files, count: filesCount(call, program), panel: <FilesTab call={call} program={program} /> },
        ]}
      />
      {/* The log has a run's output, and its files are listed; only a failure is shown here. */}
      {call.preview && (call.state === "error" || call.state === "unverified") && (
        <div class="inner printed">
          <LongText text={call.preview} lines={4} />
        </div>
      )}
    </section>
  );
}

/** The program in an approval request, before any of it runs. */
export function ProgramText({ code, params }: { code: string; params: Readonly<Record<string, unknown>> }) {
  return (
    <>
      <Params params={params} />
      <CodeBlock code={code} language="python" whole />
    </>
  );
}
