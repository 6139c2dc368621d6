/** One tool call: its parameters, its state, its result. A call that runs a program is a program card. */

import { parsePath, visible, visibleOrder } from "../../markdown/index.ts";
import type { Call, FetchView, Progress, SearchResult, SearchView } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatMs } from "../../words/format.ts";
import { wordsOfCall } from "../../words/index.ts";
import { Approval, isCancelled } from "./approval.tsx";
import { Elapsed, LongText, PathLink } from "./bits.tsx";
import { callKey, useDesk, useOpen } from "./desk.ts";
import { gist, JsonTree } from "./json.tsx";
import { CallMark, Icon } from "./mark.tsx";
import { memo } from "./memo.tsx";
import { ProgramCard } from "./program.tsx";

const tones: Partial<Record<Call["state"], string>> = {
  running: "live",
  waiting: "ask",
  unverified: "live",
  error: "bad",
};

export function StatePill({ state }: { state: Call["state"] }) {
  // The mark shows that a call succeeded; a word on each of them would only be noise.
  if (state === "ok") return null;
  return <span class={`pill ${tones[state] ?? ""}`}>{say.state[state]}</span>;
}

export function CallTime({ call }: { call: Call }) {
  // A call that did not run took no time, and for one that may have run the time is unknown.
  if (call.state === "skipped" || call.state === "unverified") return null;
  if (call.state === "running" && call.startedAt !== null) return <Elapsed from={call.startedAt} />;
  return <>{call.durationMs === null ? "" : formatMs(call.durationMs)}</>;
}

/** A parameter: a string as plain text, an omitted body as its size. */
function Param({ value }: { value: unknown }) {
  const desk = useDesk();
  if (typeof value === "string") {
    // A content that was written elsewhere is shown by its path, with the prefix "ref:".
    const path = parsePath(value.replace(/^ref:/, ""), desk.context.conversation);
    if (path) return <PathLink path={path} whole />;
    // The user must read an approval in the order in which it is processed.
    return <span dir="auto">{visibleOrder(value)}</span>;
  }
  if (typeof value === "object" && value !== null) {
    const keys = Object.keys(value);
    const { chars, items } = value as { chars?: unknown; items?: unknown };
    if (keys.length === 1 && typeof chars === "number") return <span class="gist">{say.characters(chars)}</span>;
    if (keys.length === 1 && typeof items === "number") return <span class="gist">{say.items(items)}</span>;
    return <JsonTree value={value} />;
  }
  return <code>{JSON.stringify(value)}</code>;
}

export function Params({ params }: { params: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(params);
  if (entries.length === 0) return null;
  return (
    <dl class="params">
      {entries.map(([key, value]) => (
        <div key={key}>
          <dt>
            <bdi dir="ltr">{visible(key)}</bdi>
          </dt>
          <dd>
            <Param value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return "";
  }
}

/** The title of a page as a link, if its address is safe to open. */
export function SourceTitle({ title, url }: { title: string; url: string }) {
  const name = visible(title || url);
  if (!/^https?:\/\//i.test(url)) return <bdi>{name}</bdi>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer nofollow ugc" title={visible(url)}>
      <bdi>{name}</bdi>
    </a>
  );
}

function Hit({ hit, children }: { hit: SearchResult; children?: preact.ComponentChildren }) {
  return (
    <li>
      <span class="cite">
        <span class="vh">{say.sourceNumber}</span>
        {hit.sid}
      </span>
      <div>
        <p class="hit">
          <SourceTitle title={hit.title} url={hit.url} />
          <bdi class="num" dir="ltr">
            {visible(hostOf(hit.url))}
          </bdi>
          {children}
        </p>
        {hit.snippet && (
          <p class="snippet" dir="auto">
            {hit.snippet}
          </p>
        )}
      </div>
    </li>
  );
}

function SearchHits({ view }: { view: SearchView }) {
  return (
    <div class="sub">
      <p>{say.resultsFor(view.results.length, view.objective || view.queries.join(", "))}</p>
      <ol class="found">
        {view.results.map((hit) => (
          <Hit key={hit.sid} hit={hit} />
        ))}
      </ol>
    </div>
  );
}

function FetchedPages({ view }: { view: FetchView }) {
  return (
    <div class="sub">
      <p>
        {say.pages(view.results.length)}
        {view.objective && `: ${view.objective}`}
      </p>
      <ol class="found">
        {view.results.map((hit) => (
          <Hit key={hit.url} hit={hit}>
            {hit.error ? (
              <span class="pill bad">{wordsOfCall(hit.error)}</span>
            ) : (
              hit.status !== "ok" && <span class="pill">{visible(hit.status)}</span>
            )}
          </Hit>
        ))}
      </ol>
    </div>
  );
}

function ToolEvents({ events }: { events: Call["events"] }) {
  return (
    <ul class="events sub">
      {events.map((event, at) => (
        <li key={at}>
          <details>
            <summary>
              <code dir="ltr">{visible(event.type)}</code> <span class="gist">{gist(event.data)}</span>
            </summary>
            <JsonTree value={event.data} />
          </details>
        </li>
      ))}
    </ul>
  );
}

/** How far a running call is, as a bar; without a total the bar only shows that it runs. */
export function CallProgress({ toolId, progress }: { toolId: string; progress: Progress }) {
  const { done, total, text } = progress;
  const amount = total > 0 ? say.doneOf(done, total) : say.done(done);
  return (
    <div class="progress">
      <progress
        aria-label={say.progressOf(visible(toolId))}
        aria-valuetext={text ? `${amount}, ${visible(text)}` : amount}
        max={total > 0 ? total : undefined}
        value={total > 0 ? Math.max(0, Math.min(done, total)) : undefined}
      />
      <span class="num">{amount}</span>
      {text && <bdi dir="auto">{visible(text)}</bdi>}
    </div>
  );
}

/** Why a call failed or was not run, in words, with the code for a lookup. */
export function FailureReason({ code, state }: { code: string; state: Call["state"] }) {
  if (!code) return null;
  return (
    <p class={`why ${state === "error" ? "bad" : ""}`}>
      {wordsOfCall(code)} <code dir="ltr">{code}</code>
    </p>
  );
}

export function Paths({ paths }: { paths: readonly string[] }) {
  return (
    <p class="paths">
      {paths.map((path) => (
        <span key={path}>
          <Icon of="file" />
          <PathLink path={path} whole />
        </span>
      ))}
    </p>
  );
}

function CallBody({ call }: { call: Call }) {
  // Search results have their own view; the preview would repeat them.
  const shown = call.search !== null || call.fetched !== null;
  return (
    <div class="inner">
      <FailureReason code={call.code} state={call.state} />
      <Params params={call.params} />
      {call.search && <SearchHits view={call.search} />}
      {call.fetched && <FetchedPages view={call.fetched} />}
      {call.preview && !shown && <LongText text={call.preview} />}
      {call.paths.length > 0 && <Paths paths={call.paths} />}
      {call.events.length > 0 && <ToolEvents events={call.events} />}
    </div>
  );
}

function hasBody(call: Call): boolean {
  return (
    Object.keys(call.params).length + call.events.length + call.paths.length > 0 ||
    Boolean(call.preview || call.code || call.search || call.fetched)
  );
}

function ToolCard({ turnId, call }: { turnId: string; call: Call }) {
  const [open, setOpen] = useOpen(callKey(turnId, call.callId), call.state !== "skipped");
  const body = hasBody(call);
  return (
    <section class={`card call ${call.state}`} data-call={call.callId} aria-label={visible(call.toolId)}>
      <header>
        <CallMark state={call.state} />
        <h3>
          <button
            type="button"
            class="tid"
            aria-expanded={body && open}
            disabled={!body}
            onClick={() => setOpen(!open)}
          >
            <bdi dir="ltr">{visible(call.toolId)}</bdi>
          </button>
        </h3>
        <span class="num">
          <CallTime call={call} />
        </span>
        <StatePill state={call.state} />
      </header>
      {call.live?.progress && <CallProgress toolId={call.toolId} progress={call.live.progress} />}
      {open && body && <CallBody call={call} />}
      {call.live !== null && call.live.events.length > 0 && (
        <div class="inner">
          <ToolEvents events={call.live.events} />
        </div>
      )}
    </section>
  );
}

export const CallCard = memo(function CallCard({ turnId, call }: { turnId: string; call: Call }) {
  const desk = useDesk();
  const card = call.program ? (
    <ProgramCard call={call} program={call.program} />
  ) : (
    <ToolCard turnId={turnId} call={call} />
  );
  if (!call.approval) return card;
  return (
    <>
      <Approval call={call} approval={call.approval} acts={desk.acts} />
      {/* While it waits, the request shows everything about the call; a cancelled one says so once. */}
      {call.state !== "waiting" && !isCancelled(call.approval) && card}
    </>
  );
});
