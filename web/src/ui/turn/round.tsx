/** One decision of the model and its actions: a line on the rail, open while it runs. */

import { isPlainClick, Markdown, visible } from "../../markdown/index.ts";
import type { Compaction, Round, RoundItem } from "../../thread/thread.ts";
import { inLine, retryIn } from "../../words/en/shared.ts";
import { say } from "../../words/en/thread.ts";
import { formatMs, formatTime } from "../../words/format.ts";
import { wordsOf } from "../../words/index.ts";
import { CallCard } from "./call.tsx";
import { roundKey, useDesk, useNow, useOpen } from "./desk.ts";
import { DraftCard } from "./draft.tsx";
import { gist, JsonTree } from "./json.tsx";
import { useLeaving } from "./leaving.ts";
import { memo } from "./memo.tsx";
import { formatSince } from "./message.tsx";
import { CompactionLine, compactionIsShown } from "./notice.tsx";
import { PlanLine } from "./plan_line.tsx";
import { Thinking } from "./thinking.tsx";
import { Trace } from "./trace.tsx";

/** A note as one line: citations are removed, links become their text. */
export function plainNote(text: string): string {
  return text
    .replace(/\s*\[[^\]]*\]\([^)\s]*\s+"S:\d+"\)|\s*\\\[S:\d+\\\]/g, "")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[`*]/g, "")
    .trim();
}

export function failed(round: Round): boolean {
  return round.calls.some((call) => call.state === "error" || call.state === "unverified");
}

/** A call of the round waits for approval: nothing runs meanwhile. */
function needsApproval(round: Round): boolean {
  return round.calls.some((call) => call.state === "waiting");
}

interface LineProps {
  round: Round;
  place: number;
  live: boolean;
  answering: boolean;
  open: boolean;
}

/** The code or the text of a round's current or past action. */
function what({ round, place, live, answering, open }: LineProps): { code: string } | { word: string } {
  if (live && needsApproval(round)) return { word: say.waitsForYou };
  if (live && place > 0) return { word: inLine(place) };
  if (live && round.items.at(-1)?.is === "waiting") return { word: say.modelBusy };
  // The card of an opened call has its name, which may be long.
  if (round.calls.length === 1 && !open) return { code: round.calls[0]?.toolId ?? "" };
  if (round.calls.length > 0) return { code: say.calls(round.calls.length) };
  if (answering || round.action === "complete") return { code: say.answers };
  if (round.action === "exit") return { word: say.ends };
  const draft = round.drafts.find((known) => !known.text.whole);
  if (live && draft?.name) return { word: say.writes(visible(draft.name)) };
  return { word: live && round.state !== "done" ? say[round.state] : "" };
}

/** How a round ended, if not as planned. */
function problemOf(round: Round): string {
  if (round.refused) return say.refused;
  if (round.declined) return say.declined;
  return round.interrupted ? say.cutOff : "";
}

/** The durations of the model and the tools, null while unknown; for a program, also of its start and its end. */
function spanOf(round: Round): { model: number | null; tools: number | null } {
  const { startedAt, decidedAt, calls } = round;
  const model = decidedAt === null ? null : Math.max(decidedAt - startedAt, 0);
  const ran = calls.flatMap((call) =>
    call.startedAt === null || call.durationMs === null
      ? []
      : [{ from: call.startedAt, to: call.startedAt + call.durationMs }],
  );
  if (ran.length === 0) return { model, tools: null };
  return { model, tools: Math.max(...ran.map(({ to }) => to)) - Math.min(...ran.map(({ from }) => from)) };
}

function RoundTime({ round, live }: { round: Round; live: boolean }) {
  const runs = live && round.state !== "done";
  const now = useNow(runs);
  const { model, tools } = spanOf(round);
  if (runs) return <>{formatMs(Math.floor(Math.max(now - round.startedAt, 0) / 1000) * 1000)}</>;
  const shown = tools ?? model;
  return <>{shown === null ? "" : formatMs(shown)}</>;
}

function spanWords(round: Round): string {
  const { model, tools } = spanOf(round);
  const parts = [model !== null && say.inModel(formatMs(model)), tools !== null && say.inTools(formatMs(tools))];
  return parts.filter(Boolean).join(", ");
}

function Line(props: LineProps & { setOpen: (to: boolean) => void }) {
  const { round, live, open, setOpen } = props;
  const doing = what(props);
  const tone = needsApproval(round) ? "asks" : "live";
  const wrong = problemOf(round);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    // The arrow key in the reading direction opens.
    const mirrored = getComputedStyle(event.currentTarget as Element).direction === "rtl";
    const to = (event.key === "ArrowRight") !== mirrored;
    if (to === open) return;
    event.preventDefault();
    setOpen(to);
  };
  const remarks = !open && round.items.some((item) => item.is === "notice" || item.is === "rejected");
  return (
    <button type="button" class="line" aria-expanded={open} onClick={() => setOpen(!open)} onKeyDown={onKeyDown}>
      <span class="note" dir="auto">
        {plainNote(round.notes.text) || <span class="gist">{say.round(round.iteration + 1)}</span>}
      </span>
      <span class="what">
        {remarks && <span class="dot" role="img" aria-label={say.hasNotes} />}
        {wrong && <span class="pill">{wrong}</span>}
        {"code" in doing && doing.code && <code dir="ltr">{visible(doing.code)}</code>}
        {"word" in doing && doing.word && <span class={live ? `word ${tone}` : "word"}>{doing.word}</span>}
      </span>
    </button>
  );
}

function ProviderWait({ item, last }: { item: Extract<RoundItem, { is: "waiting" }>; last: boolean }) {
  const now = useNow(last);
  const waits = last && now < item.until;
  return (
    <p class={`remark-line ${waits ? "live" : ""}`}>
      <span class="num">
        {last ? say.busy(retryIn(item.until - now, item.attempt, item.attempts)) : say.wasBusy(formatTime(item.until))}
      </span>
    </p>
  );
}

function Rejected({ item }: { item: Extract<RoundItem, { is: "rejected" }> }) {
  const why = wordsOf(item.code);
  return (
    <p class="remark-line struck">
      <span>{item.actionIndex === null ? say.decisionRefused(why) : say.actionNotRun(item.actionIndex, why)}</span>
      {item.toolId && <code dir="ltr">{visible(item.toolId)}</code>}
      <code dir="ltr">{item.code}</code>
    </p>
  );
}

function ToolEvent({ item }: { item: Extract<RoundItem, { is: "event" }> }) {
  return (
    <details class="remark-line">
      <summary>
        <code dir="ltr">{visible(item.type)}</code> <span class="gist">{gist(item.data)}</span>
      </summary>
      <JsonTree value={item.data} />
    </details>
  );
}

/** A barely noticeable restart is not shown. */
export function restartIsShown(round: Round, item: Extract<RoundItem, { is: "restarted" }>): boolean {
  return item.attempt > 1 || item.at - round.startedAt >= 3000;
}

interface ItemProps {
  round: Round;
  item: RoundItem;
  last: boolean;
  live: boolean;
  turnId: string;
  compactions: readonly Compaction[];
}

function Item({ round, item, last, live, turnId, compactions }: ItemProps) {
  switch (item.is) {
    case "call": {
      const call = round.calls.find((known) => known.callId === item.callId);
      return call ? <CallCard turnId={turnId} call={call} /> : null;
    }
    case "draft": {
      const draft = round.drafts.find((known) => known.lane === item.lane);
      return draft ? <DraftCard turnId={turnId} draft={draft} live={live} /> : null;
    }
    case "rejected":
      return <Rejected item={item} />;
    case "notice":
      return (
        <p class="remark-line">
          {wordsOf(item.code)} <code dir="ltr">{item.code}</code>
        </p>
      );
    case "restarted":
      return restartIsShown(round, item) ? <p class="remark-line">{say.beganAgain(item.attempt + 1)}</p> : null;
    case "waiting":
      return <ProviderWait item={item} last={last && live} />;
    case "compaction": {
      const compaction = compactions.find((known) => known.compactionId === item.compactionId);
      // A compaction that made the request smaller is on the rail already.
      return compaction && !compactionIsShown(compaction) ? <CompactionLine compaction={compaction} /> : null;
    }
    case "plan":
      return <PlanLine planId={item.planId} />;
    case "event":
      return <ToolEvent item={item} />;
  }
}

/** The details of a round besides its parts, and the link to everything that the model read. */
function Foot({ round, turnId }: { round: Round; turnId: string }) {
  const desk = useDesk();
  const at = round.iteration;
  const facts = [
    round.model,
    spanWords(round),
    round.roundsLeft !== null && round.state === "done" ? say.left(round.roundsLeft) : "",
  ].filter(Boolean);
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    desk.acts.openTimeline(turnId, at);
  };
  if (facts.length === 0 && !desk.context.inspect) return null;
  return (
    <p class="round-foot num">
      <span>{facts.join(" · ")}</span>
      {desk.context.inspect && (
        <a href={desk.timelineHref(turnId, at)} onClick={open}>
          {say.timeline} <kbd>t</kbd>
        </a>
      )}
    </p>
  );
}

/** A note that does not fit into its line, or cites something, is shown in full in the opened round. */
function noteIsLong(text: string): boolean {
  return text.length > 80 || text.includes("\n") || text.includes("](");
}

interface Props {
  round: Round;
  /** Its turn's queue position, 0 if it is not queued. */
  place: number;
  turnId: string;
  turnStartedAt: number;
  scaleMs: number;
  /** The last round of a running turn. */
  live: boolean;
  answering: boolean;
  compactions: readonly Compaction[];
}

function Body({ round: now, turnId, live, compactions }: Props) {
  const desk = useDesk();
  const leaving = useLeaving(now);
  const round = leaving ?? now;
  return (
    <div class={leaving ? "inside leaving" : "inside"}>
      <Thinking thinking={round.thinking} settled={round.state !== "thinking"} />
      {noteIsLong(round.notes.text) && (
        <div class="whole-note">
          <Markdown text={round.notes.text} growing={!round.notes.whole} context={desk.markdown} />
        </div>
      )}
      {round.items.map((item, at) => (
        <Item
          key={at}
          round={round}
          item={item}
          last={at === round.items.length - 1}
          live={live}
          turnId={turnId}
          compactions={compactions}
        />
      ))}
      <Foot round={round} turnId={turnId} />
    </div>
  );
}

export const RoundView = memo(function RoundView(props: Props) {
  const { round, turnId, turnStartedAt, live } = props;
  const [open, setOpen] = useOpen(roundKey(turnId, round.iteration), live || failed(round));
  const wrong = round.refused || round.declined ? "refused" : round.interrupted ? "cut" : "";
  const number = round.iteration + 1;
  const now = needsApproval(round) ? "asks" : "live";
  return (
    <li
      class={`round ${live && round.state !== "done" ? now : "done"} ${wrong}`}
      data-turn={turnId}
      data-round={number}
    >
      <span class="clock num">{formatSince(round.startedAt - turnStartedAt)}</span>
      <div class="body">
        <span class="node" role="img" aria-label={say.round(number)}>
          {number}
        </span>
        <div class="head">
          <Line
            round={round}
            place={props.place}
            live={live}
            answering={props.answering}
            open={open}
            setOpen={setOpen}
          />
          <Trace
            round={round}
            turnStartedAt={turnStartedAt}
            scaleMs={props.scaleMs}
            runs={live && round.state !== "done"}
          />
          <span class="num time" title={spanWords(round)}>
            <RoundTime round={round} live={live} />
          </span>
        </div>
        {open && <Body {...props} />}
      </div>
    </li>
  );
});
