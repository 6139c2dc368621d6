/** The panel of turns and rounds: the tokens that each round read, wrote and missed. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { OwnFork, Rounds, TurnRounds } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import { formatNumber, formatPercent, formatTime, formatTokens } from "../words/format.ts";
import { Link, reveal, Stack } from "./bits.tsx";
import { type Figures, figuresOf, NONE, readShare, sumFigures } from "./figures.ts";
import { type LogBook, noteOf, promptOf } from "./log_book.ts";
import { addressOf, type Live, namedLive, type Placed } from "./rounds_list.ts";
import { showHidden } from "./text.ts";

interface RoundsProps {
  readonly conversation: string;
  readonly rounds: Rounds;
  readonly all: readonly Placed[];
  readonly current: Placed | null;
  /** The undecided round, null if there is none. */
  readonly live: Live | null;
  /** The running round is selected. */
  readonly watched: boolean;
  readonly view: string;
  readonly book: LogBook;
  readonly navigate: (address: string) => void;
  readonly refresh: () => void;
  readonly forks: readonly Fork[];
}

export type Fork = Pick<OwnFork, "conversation" | "n" | "title">;

const w = words.rounds;

export function RoundsPanel({ rounds, all, current, live, book, refresh, forks, ...links }: RoundsProps) {
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const most = all.reduce((highest, one) => Math.max(highest, totalOf(figuresOfRound(one))), 1);
  const remember = (turnId: string, open: boolean) => setToggled(new Map(toggled).set(turnId, open));
  return (
    <>
      <h2 class="label">
        {w.title}
        <span>{w.unit}</span>
      </h2>
      {all.length === 0 && live === null && <p class="remark">{w.none}</p>}
      <ol class="picks">
        {rounds.turns.map((turn, at) => (
          <Turn
            key={turn.turn_id}
            {...links}
            turn={turn}
            number={at + 1}
            placed={all.filter((one) => one.turn === turn)}
            current={current}
            most={most}
            book={book}
            live={live?.turnId === turn.turn_id ? live : null}
            open={toggled.get(turn.turn_id) ?? (turn === current?.turn || turn.turn_id === live?.turnId)}
            onToggle={remember}
            forks={forks.filter(({ n }) => n >= turn.opened_n && n < (rounds.turns[at + 1]?.opened_n ?? n + 1))}
          />
        ))}
      </ol>
      <p class="remark">
        {w.keys}{" "}
        <button type="button" class="unfold" onClick={refresh}>
          {w.refresh}
        </button>
      </p>
    </>
  );
}

interface TurnProps {
  readonly conversation: string;
  readonly turn: TurnRounds;
  readonly number: number;
  readonly placed: readonly Placed[];
  readonly current: Placed | null;
  readonly live: Live | null;
  readonly watched: boolean;
  readonly view: string;
  readonly most: number;
  readonly book: LogBook;
  readonly open: boolean;
  readonly onToggle: (turnId: string, open: boolean) => void;
  readonly forks: readonly Fork[];
  readonly navigate: (address: string) => void;
}

function Turn(props: TurnProps) {
  const { turn, number, placed, current, live, watched, most, book, open, onToggle, forks, ...links } = props;
  const figures = sumFigures(placed.map(figuresOfRound));
  const prompt = promptOf(book, turn.opened_n) || w.turn(number);
  const first = turn.rounds[0];
  return (
    <li>
      <details
        open={open}
        onToggle={(event) => event.currentTarget.open !== open && onToggle(turn.turn_id, event.currentTarget.open)}
      >
        <summary class="turn-head">
          <span class="num">{number}</span>
          <span class="asked-for" dir="auto">
            {prompt}
          </span>
          <span class="num">
            {forks.length > 0 && (
              <svg class="icon forked" viewBox="0 0 16 16" role="img" aria-label={w.forks(forks.length)}>
                <path d="M8 13.5v-4M4 2.5v2c0 2.5 4 2.5 4 5 0-2.5 4-2.5 4-5v-2" />
              </svg>
            )}
            {turn.closed_n === 0 ? w.runs : first ? formatTime(Date.parse(first.started_at)) : ""}
          </span>
          {!open && <Stack figures={figures} most={Math.max(most, totalOf(figures))} />}
          {!open && <span class="vh">{figureWords(figures)}</span>}
        </summary>
        <ol>
          {(open ? placed : []).map((one) => (
            <Round
              key={one.round.decided_n}
              {...links}
              placed={one}
              current={one === current}
              most={most}
              book={book}
            />
          ))}
          {open && live && <LiveRound {...links} live={live} number={number} current={watched} />}
        </ol>
        {open && forks.length > 0 && (
          <ul class="forks" aria-label={w.forks(forks.length)}>
            {forks.map((fork) => (
              <li key={fork.conversation}>
                <Link href={`/c/${fork.conversation}`} navigate={links.navigate}>
                  <bdi>{showHidden(fork.title) || fork.conversation}</bdi>
                </Link>
              </li>
            ))}
          </ul>
        )}
      </details>
    </li>
  );
}

interface LiveProps {
  readonly conversation: string;
  readonly live: Live;
  /** The number of its turn. */
  readonly number: number;
  readonly current: boolean;
  readonly view: string;
  readonly navigate: (address: string) => void;
}

/** The running round: its figures are known once it is decided. */
function LiveRound({ conversation, live, number, current, view, navigate }: LiveProps) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (current && row.current) reveal(row.current);
  }, [current]);
  return (
    <li ref={row} class="live">
      <Link class="pick" href={addressOf(conversation, namedLive(live), view)} navigate={navigate} current={current}>
        <span class="vh">{`${w.of(number, live.iteration + 1)}: `}</span>
        <span class="node" aria-hidden="true">
          {live.iteration + 1}
        </span>
        <span class="note" dir="auto">
          {live.doing}
        </span>
        <span class="pill live">{w.runs}</span>
      </Link>
    </li>
  );
}

interface RoundProps {
  readonly conversation: string;
  readonly placed: Placed;
  readonly current: boolean;
  readonly view: string;
  readonly most: number;
  readonly book: LogBook;
  readonly navigate: (address: string) => void;
}

function Round({ conversation, placed, current, view, most, book, navigate }: RoundProps) {
  const { round, turnNumber } = placed;
  const figures = figuresOfRound(placed);
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (current && row.current) reveal(row.current);
  }, [current]);
  const ended = round.interrupted ? w.interrupted : round.accepted ? "" : w.refused;
  return (
    <li ref={row}>
      <Link class="pick" href={addressOf(conversation, placed, view)} navigate={navigate} current={current}>
        <span class="vh">{`${w.of(turnNumber, round.iteration + 1)}: `}</span>
        <span class={ended ? "node cut" : "node"} aria-hidden="true">
          {round.iteration + 1}
        </span>
        <span class="note" dir="auto">
          {ended && <em>{`${ended} `}</em>}
          {noteOf(book, round.decided_n)}
        </span>
        <span class="num">{round.usage ? formatNumber(figures.input) : w.notCounted}</span>
        <Stack figures={figures} most={most} bust={round.bust} />
        <span class="vh">{figureWords(figures)}</span>
        {round.bust && <span class="bust">{bustWords(round.bust)}</span>}
      </Link>
    </li>
  );
}

/** Return the figures of a round's successful model call. */
export function figuresOfRound(placed: Placed): Figures {
  return placed.round.usage ? figuresOf(placed.round.usage) : NONE;
}

function totalOf(figures: Figures): number {
  return figures.input + figures.output;
}

function figureWords(figures: Figures): string {
  const numbers = [figures.read, figures.written, figures.plain, figures.output].map(formatNumber);
  const [read = "", written = "", plain = "", output = ""] = numbers;
  return `${w.figures(read, written, plain, output)} (${formatPercent(readShare(figures))})`;
}

function bustWords(bust: NonNullable<Placed["round"]["bust"]>): string {
  return w.bust(
    formatTokens(bust.read_tokens),
    formatTokens(bust.expected_tokens),
    words.busts[bust.reason] ?? bust.reason,
  );
}
