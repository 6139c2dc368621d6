/**
 * The inspector: for any turn and round, the model's input, its reply, the cost, and the log.
 *
 * It renders everything below the title bar, and loads when it is first opened.
 */

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Tokens } from "../api/index.ts";
import { formatNumber, formatPercent } from "../words/format.ts";
import { type Answer, Shown, useAnswer } from "./answer.tsx";
import { Link, Stack } from "./bits.tsx";
import { CostsPanel } from "./costs.tsx";
import { DiffPanel, OtherRound } from "./diff.tsx";
import { type Figures, readShare } from "./figures.ts";
import "./inspect.css";
import { words } from "../words/en/inspect.ts";
import { LogPanel, pagesOf } from "./log.tsx";
import { systemSince } from "./log_book.ts";
import type { PieceContext } from "./piece.tsx";
import { ReplaysPanel } from "./replay.tsx";
import { ReplyPanel } from "./reply.tsx";
import { RequestPanel } from "./request.tsx";
import { type Fork, figuresOfRound, RoundsPanel } from "./rounds.tsx";
import {
  addressOf,
  indexOfName,
  indexOfRound,
  type Live,
  namedLive,
  nameRound,
  type Placed,
  placeRounds,
} from "./rounds_list.ts";
import { type InspectorApi, Source } from "./source.ts";
import { useLogBook } from "./use_log_book.tsx";
import { useNarrow } from "./use_narrow.ts";

export interface InspectorProps {
  readonly conversation: string;
  /** The id of a turn. */
  readonly turn: string;
  /** From 0. */
  readonly iteration: number;
  /** `request`, `diff`, `reply`, `replay` or `costs`. */
  readonly view: string;
  /** The other round of a comparison, `<turn>.<round>`; "" is the round before. */
  readonly to?: string;
  readonly api: InspectorApi;
  readonly navigate: (address: string) => void;
  /** Single letters are shortcuts. */
  readonly letters?: boolean;
  /** A value that changes when the rounds must be read again: one was decided, or a turn has ended. */
  readonly progress?: string;
  /** The running round, null if there is none. */
  readonly live?: Live | null;
  /** The newest batch that the page knows of: the log is read up to it. */
  readonly newest?: number;
  /** The conversations that continue this one, each from batch `n`. */
  readonly forks?: readonly Fork[];
  /** Ask whether to fork the conversation after a round; turns and rounds count from 1. */
  readonly fork?: (place: { decidedN: number; number: number; round: number }) => void;
}

type Panel = "rounds" | "middle" | "log";
type View = "request" | "diff" | "reply" | "replay" | "costs";
const VIEWS: readonly View[] = ["request", "diff", "reply", "replay", "costs"];

export default function Inspector(props: InspectorProps) {
  const { conversation, api, progress = "" } = props;
  const source = useMemo(() => new Source(api, conversation), [api, conversation]);
  const [readings, setReadings] = useState(0);
  const newest = useAnswer(`${conversation} ${readings} ${progress}`, () => source.rounds());
  const rounds = useKept(conversation, newest);
  const refresh = () => setReadings(readings + 1);
  if (rounds.is === "read") {
    const reading = newest.is === "reading";
    return <Bench key={conversation} {...props} {...{ source, refresh, reading }} rounds={rounds.value} />;
  }
  return (
    <div class="bench alone">
      <Shown answer={rounds}>{() => null}</Shown>
    </div>
  );
}

/** The previous result stays until the next one arrives, also if that fails. */
function useKept<Value>(key: string, answer: Answer<Value>): Answer<Value> {
  const kept = useRef<{ key: string; answer: Answer<Value> } | null>(null);
  if (answer.is === "read") kept.current = { key, answer };
  return kept.current?.key === key ? kept.current.answer : answer;
}

interface BenchProps extends InspectorProps {
  readonly source: Source;
  readonly rounds: Parameters<typeof placeRounds>[0];
  readonly refresh: () => void;
  /** The rounds are being read again. */
  readonly reading: boolean;
}

function Bench({ source, rounds, refresh, reading, ...props }: BenchProps) {
  const { conversation, navigate, to = "", newest = 0, forks = [] } = props;
  const all = useMemo(() => placeRounds(rounds), [rounds]);
  const turns = useMemo(() => new Map(rounds.turns.map((turn, at) => [turn.turn_id, at + 1])), [rounds]);
  const index = indexOfRound(all, props.turn, props.iteration);
  const current = all[index] ?? null;
  const view = VIEWS.find((one) => one === props.view) ?? "request";
  const narrow = useNarrow();
  const [panel, setPanel] = useState<Panel>("middle");
  const [selected, setSelected] = useSelected(current);
  // Once decided, it is a round like the others, even while its calls run.
  const decided = props.live && indexOfRound(all, props.live.turnId, props.live.iteration) >= 0;
  const live = decided ? null : (props.live ?? null);
  const watched = live?.turnId === props.turn && live.iteration === props.iteration;
  const { book, refused, readPage } = useLogBook(source, rounds, newest, current ? pagesOf(current) : []);
  useKeys({ ...props, live, view, all, index: watched ? all.length : index });

  const since = useMemo(() => (current ? systemSince(book, current.round.decided_n) : ""), [book, current]);

  const select = (n: number) => {
    setSelected(n === selected ? null : n);
    readPage(n);
  };
  const context: PieceContext = {
    source,
    selected,
    select,
    systemSince: turns.get(since) ?? null,
  };
  const middle = { ...props, source, all, index, current, watched, reading, view, to, context, rounds, turns };
  // In a narrow window, selecting a round also opens its panel.
  const pick = (address: string) => {
    setPanel("middle");
    navigate(address);
  };
  const panels: Readonly<Record<Panel, ComponentChildren>> = {
    rounds: (
      <RoundsPanel
        {...{ conversation, rounds, all, current, live, watched, view, book, refresh, forks }}
        navigate={pick}
      />
    ),
    middle: <Middle {...middle} />,
    log:
      refused ??
      ((current || watched) && <LogPanel {...{ book, current, newest, selected, select }} readPage={readPage.page} />),
  };
  return narrow ? <Tabs panels={panels} shown={panel} show={setPanel} /> : <Columns panels={panels} />;
}

/** The selection belongs to the current round: another round starts with nothing selected. */
function useSelected(current: Placed | null): readonly [number | null, (n: number | null) => void] {
  const [state, setState] = useState<{ of: Placed | null; n: number | null }>({ of: null, n: null });
  return [state.of === current ? state.n : null, (n) => setState({ of: current, n })];
}

const LABELS: Readonly<Record<Panel, string>> = {
  rounds: words.rounds.label,
  middle: words.request.label,
  log: words.log.label,
};

function Columns({ panels }: { panels: Readonly<Record<Panel, ComponentChildren>> }) {
  return (
    <div class="bench">
      {(["rounds", "middle", "log"] as const).map((panel) => (
        <section key={panel} class={`col of-${panel}`} aria-label={LABELS[panel]}>
          {panels[panel]}
        </section>
      ))}
    </div>
  );
}

interface TabsProps {
  readonly panels: Readonly<Record<Panel, ComponentChildren>>;
  readonly shown: Panel;
  readonly show: (panel: Panel) => void;
}

/** In a narrow window the three panels are tabs; arrow keys switch between them. */
function Tabs({ panels, shown, show }: TabsProps) {
  const id = useId();
  const names: readonly Panel[] = ["rounds", "middle", "log"];
  const move = (event: KeyboardEvent) => {
    const onward = getComputedStyle(event.currentTarget as Element).direction === "rtl" ? -1 : 1;
    const by = event.key === "ArrowRight" ? onward : event.key === "ArrowLeft" ? -onward : 0;
    const next = by && names[(names.indexOf(shown) + by + names.length) % names.length];
    if (!next) return;
    event.preventDefault();
    show(next);
    document.getElementById(`${id}-${next}`)?.focus();
  };
  return (
    <div class="bench narrow">
      <div class="tabs" role="tablist" aria-label={words.tabsLabel} onKeyDown={move}>
        {names.map((panel) => (
          <button
            key={panel}
            id={`${id}-${panel}`}
            type="button"
            role="tab"
            aria-selected={panel === shown}
            aria-controls={`${id}-panel`}
            tabIndex={panel === shown ? 0 : -1}
            onClick={() => show(panel)}
          >
            {words.tabs[panel]}
          </button>
        ))}
      </div>
      <section
        key={shown}
        id={`${id}-panel`}
        class={`col of-${shown}`}
        role="tabpanel"
        aria-labelledby={`${id}-${shown}`}
      >
        {panels[shown]}
      </section>
    </div>
  );
}

interface MiddleProps {
  readonly conversation: string;
  readonly source: Source;
  readonly rounds: BenchProps["rounds"];
  readonly turns: ReadonlyMap<string, number>;
  readonly all: readonly Placed[];
  readonly index: number;
  readonly current: Placed | null;
  readonly watched: boolean;
  readonly reading: boolean;
  readonly view: View;
  readonly to: string;
  readonly context: PieceContext;
  readonly navigate: (address: string) => void;
  readonly fork?: InspectorProps["fork"];
}

function Middle(props: MiddleProps) {
  const { current, watched, reading, view } = props;
  if (watched) return <p class="remark">{words.rounds.live}</p>;
  if (current === null) return <p class="remark">{reading ? words.loading : words.rounds.gone}</p>;
  return (
    <>
      <Strip {...props} current={current} />
      <div class="scroll" key={`${current.round.decided_n} ${view}`}>
        {view === "request" && <RequestOf {...props} current={current} />}
        {view === "diff" && <DiffOf {...props} current={current} />}
        {view === "reply" && <ReplyOf {...props} current={current} />}
        {view === "replay" && <ReplaysPanel source={props.source} n={current.round.decided_n} />}
        {view === "costs" && <CostsOf {...props} current={current} />}
      </div>
    </>
  );
}

type At<Props> = Props & { readonly current: Placed };

/** The round's name, its input, and its views. */
function Strip({ conversation, current, view, navigate, fork }: At<MiddleProps>) {
  const { round, turnNumber } = current;
  const figures = figuresOfRound(current);
  const place = words.rounds.place(turnNumber, round.iteration + 1, round.decided_n);
  return (
    <header class="strip">
      <h2 class="where">{place}</h2>
      <p class="read-of">
        {round.usage && <b>{formatNumber(figures.input)}</b>} <span class="num">{readWords(round.usage, figures)}</span>
      </p>
      <Stack figures={figures} most={figures.input} output={false} />
      <nav class="views" aria-label={words.viewsLabel}>
        {VIEWS.map((one) => (
          <Link key={one} href={addressOf(conversation, current, one)} navigate={navigate} current={one === view}>
            {words.views[one]}
          </Link>
        ))}
      </nav>
      {fork && (
        <button
          type="button"
          class="unfold"
          onClick={() => fork({ decidedN: round.decided_n, number: turnNumber, round: round.iteration + 1 })}
        >
          {words.rounds.fork}
        </button>
      )}
    </header>
  );
}

function readWords(usage: Tokens | null, figures: Figures): string {
  if (usage === null) return words.rounds.notCounted;
  return usage.estimated ? words.request.notCounted : words.request.tokensIn(formatPercent(readShare(figures)));
}

function RequestOf({ source, current, all, index, turns, context }: At<MiddleProps>) {
  const n = current.round.decided_n;
  const answer = useAnswer(`request ${n}`, () => source.request(n));
  return (
    <Shown answer={answer}>
      {(view) => (
        <RequestPanel
          view={view}
          figures={figuresOfRound(current)}
          placed={current}
          before={all[index - 1] ?? null}
          turns={turns}
          context={context}
        />
      )}
    </Shown>
  );
}

/** The round is compared with the one in the address, else with the one before it, else with the one after it. */
function DiffOf({ conversation, source, current, all, index, to, navigate, context }: At<MiddleProps>) {
  const other = all[indexOfName(all, to)] ?? all[index - 1] ?? all[index + 1] ?? null;
  const isOlder = other !== null && other.round.decided_n > current.round.decided_n;
  const [older, newer] = isOlder ? [current, other] : [other, current];
  const key = older && other !== current ? `diff ${older.round.decided_n} ${newer.round.decided_n}` : null;
  const answer = useAnswer(key, () => source.diff(older?.round.decided_n ?? 0, newer.round.decided_n));
  if (key === null || older === null) return <p class="remark">{words.diff.itself}</p>;
  const choose = (chosen: Placed) => navigate(addressOf(conversation, current, "diff", nameRound(chosen)));
  return (
    <>
      <OtherRound all={all} current={current} other={other} choose={choose} />
      <Shown answer={answer}>{(diff) => <DiffPanel diff={diff} older={older} newer={newer} context={context} />}</Shown>
    </>
  );
}

function ReplyOf({ source, current }: At<MiddleProps>) {
  const n = current.round.decided_n;
  const answer = useAnswer(`reply ${n}`, () => source.reply(n));
  return <Shown answer={answer}>{(reply) => <ReplyPanel reply={reply} />}</Shown>;
}

function CostsOf({ conversation, source, rounds, all, current, navigate }: At<MiddleProps>) {
  // The receipts grow with the rounds, so they are read together.
  const answer = useAnswer(`receipts ${all.length} ${rounds.turns.at(-1)?.closed_n ?? 0}`, () => source.receipts());
  return (
    <Shown answer={answer}>
      {(receipts) => <CostsPanel {...{ conversation, receipts, all, current, navigate }} />}
    </Shown>
  );
}

interface KeysOf extends InspectorProps {
  readonly view: View;
  readonly all: readonly Placed[];
  readonly index: number;
}

/**
 * `j` and `k` go to the next and the previous round, `t` to the chat at the same round.
 *
 * The keys are handled in the capture phase, before the page's own keys: there `j` and `k` move between turns. The
 * display and the keys change together, even if the user types faster than the page renders.
 */
function useKeys(keys: KeysOf): void {
  const { conversation, turn, iteration, view, all, index, live, navigate, letters = true } = keys;
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!letters || event.ctrlKey || event.metaKey || event.altKey || takesText(event.target)) return;
      const by = { j: 1, k: -1 }[event.key];
      const next = by && (all[index + by] ?? (live && index + by === all.length ? namedLive(live) : undefined));
      if ((!by && event.key !== "t") || document.querySelector("dialog[open], [popover]:popover-open")) return;
      event.preventDefault();
      if (!by) navigate(`/c/${conversation}/t/${turn}/r/${iteration + 1}`);
      else if (next) navigate(addressOf(conversation, next, view));
    };
    document.addEventListener("keydown", press, { capture: true });
    return () => document.removeEventListener("keydown", press, { capture: true });
  }, [conversation, turn, iteration, view, all, index, live, navigate, letters]);
}

function takesText(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable)
  );
}
