/** The cost of a conversation: three plots over its rounds or turns, and the same numbers as a table. */

import { useState } from "preact/hooks";
import type { Receipts } from "../api/index.ts";
import { visible } from "../markdown/index.ts";
import { words } from "../words/en/inspect.ts";
import { formatNumber, formatPercent, formatTokens } from "../words/format.ts";
import { Link } from "./bits.tsx";
import {
  type Cost,
  costsOf,
  type Figures,
  figuresOf,
  type ReplayCost,
  readShare,
  replayCosts,
  type TurnCost,
} from "./figures.ts";
import { addressOf, type Placed } from "./rounds_list.ts";

const w = words.costs;

/**
 * The maximum and the minimum step of a bar in pixels. It is as wide as fits; below the minimum, the plot scrolls.
 */
const WIDE = 32;
const NARROW = 4;
const PLOT_WIDTH = 720;
const HEIGHT = 96;
/** Below the axis: a mark of the selected round, and the numbers of turns. */
const FOOT = 22;
/** The minimum width for a turn's number. */
const NUMBER_WIDTH = 16;

interface CostsProps {
  readonly conversation: string;
  readonly receipts: Receipts;
  readonly all: readonly Placed[];
  readonly current: Placed | null;
  readonly navigate: (address: string) => void;
}

export function CostsPanel({ conversation, receipts, all, current, navigate }: CostsProps) {
  const [byTurn, setByTurn] = useState(false);
  const turns = costsOf(receipts);
  const replays = replayCosts(receipts);
  if (replays.length === 0 && turns.every((turn) => turn.calls.length === 0)) return <p class="remark">{w.none}</p>;
  const bars = byTurn ? turns.map((turn) => turn.whole) : turns.flatMap((turn) => turn.calls);
  const chosen = (cost: Cost) =>
    cost.turnId === current?.turn.turn_id && (byTurn || cost.iteration === current.round.iteration);
  return (
    <div class="costs">
      <fieldset class="by">
        <legend class="vh">{w.by}</legend>
        {[false, true].map((turn) => (
          <label key={String(turn)}>
            <input type="radio" name="costs-by" checked={byTurn === turn} onChange={() => setByTurn(turn)} />
            {turn ? w.byTurn : w.byRound}
          </label>
        ))}
      </fieldset>
      <Key />
      <Plot
        title={w.tokens}
        most={w.most(formatTokens(mostOf(bars, totalOf)))}
        bars={bars}
        chosen={chosen}
        draw={stackOf(bars)}
      />
      <Plot
        title={w.share}
        most={w.share100}
        bars={bars}
        chosen={chosen}
        draw={(cost) => [["read", readShare(cost.figures)]]}
      />
      <Plot
        title={w.weighted}
        most={w.most(formatTokens(Math.round(mostOf(bars, (figures) => figures.weighted))))}
        note={w.weightedNote}
        bars={bars}
        chosen={chosen}
        draw={weightOf(bars)}
      />
      <CostTable turns={turns} replays={replays} receipts={receipts} links={{ conversation, all, navigate }} />
    </div>
  );
}

/** The colors of the cache classes. */
function Key() {
  const { request } = words;
  const classes = [
    ["read", request.read],
    ["write", request.written],
    ["plain", request.plain],
    ["out", request.output],
  ] as const;
  return (
    <p class="key row">
      {classes.map(([name, said]) => (
        <span key={name}>
          <i class={name} aria-hidden="true" />
          {said}
        </span>
      ))}
      <span>{w.numbers}</span>
    </p>
  );
}

type Parts = readonly (readonly [string, number])[];

function totalOf(figures: Figures): number {
  return figures.input + figures.output;
}

function mostOf(bars: readonly Cost[], value: (figures: Figures) => number): number {
  return Math.max(1, ...bars.map((cost) => value(cost.figures)));
}

/** Return the parts of a bar by cache class, each as its share of the highest bar. */
function stackOf(bars: readonly Cost[]): (cost: Cost) => Parts {
  const most = mostOf(bars, totalOf);
  return ({ figures }) => [
    ["read", figures.read / most],
    ["write", figures.written / most],
    ["plain", figures.plain / most],
    ["out", figures.output / most],
  ];
}

function weightOf(bars: readonly Cost[]): (cost: Cost) => Parts {
  const most = mostOf(bars, (figures) => figures.weighted);
  return ({ figures }) => [["ink", figures.weighted / most]];
}

interface PlotProps {
  readonly title: string;
  readonly most: string;
  readonly note?: string;
  readonly bars: readonly Cost[];
  readonly chosen: (cost: Cost) => boolean;
  readonly draw: (cost: Cost) => Parts;
}

/**
 * Bars over the conversation, with the number of each turn at its first bar. Hidden from screen readers: the table has
 * its numbers.
 */
function Plot({ title, most, note = "", bars, chosen, draw }: PlotProps) {
  const step = Math.max(NARROW, Math.min(WIDE, Math.floor(PLOT_WIDTH / Math.max(1, bars.length))));
  const wide = Math.max(2, Math.round(step * 0.7));
  const width = Math.max(step * bars.length, NUMBER_WIDTH);
  return (
    <figure class="plot">
      <figcaption>
        {title} <span class="num">{most}</span>
        {note && <small>{note}</small>}
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard */}
      <section class="ground" aria-label={title} tabIndex={0}>
        <svg width={width} height={HEIGHT + FOOT} viewBox={`0 0 ${width} ${HEIGHT + FOOT}`} aria-hidden="true">
          {[0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) => (
            <line key={y} class="grid" x1="0" x2={width} y1={y} y2={y} />
          ))}
          {bars.map((cost, at) => (
            <Bar key={cost.key} parts={draw(cost)} x={at * step} wide={wide} chosen={chosen(cost)} />
          ))}
          {turnNumbers(bars, step).map(({ turn, x }) => (
            <text key={turn} x={x} y={HEIGHT + FOOT - 4}>
              {turn}
            </text>
          ))}
        </svg>
      </section>
    </figure>
  );
}

/**
 * Return the positions of the turns' numbers: at the first bar of each turn, if there is room after the previous
 * number.
 */
function turnNumbers(bars: readonly Cost[], step: number): readonly { turn: number; x: number }[] {
  const numbers: { turn: number; x: number }[] = [];
  bars.forEach((cost, at) => {
    const last = numbers.at(-1);
    const begins = bars[at - 1]?.turn !== cost.turn;
    if (begins && (!last || at * step - last.x >= NUMBER_WIDTH)) numbers.push({ turn: cost.turn, x: at * step });
  });
  return numbers;
}

function Bar({ parts, x, wide, chosen }: { parts: Parts; x: number; wide: number; chosen: boolean }) {
  let y = HEIGHT;
  return (
    <g>
      {parts.map(([name, share]) => {
        const height = share * HEIGHT;
        y -= height;
        return height > 0 ? (
          <rect key={name} class={name} x={x} y={y.toFixed(1)} width={wide} height={Math.max(0.5, height).toFixed(1)} />
        ) : null;
      })}
      {chosen && <rect class="here" x={x} y={HEIGHT + 2} width={wide} height="3" />}
    </g>
  );
}

interface Links {
  readonly conversation: string;
  readonly all: readonly Placed[];
  readonly navigate: (address: string) => void;
}

interface TableProps {
  readonly turns: readonly TurnCost[];
  readonly replays: readonly ReplayCost[];
  readonly receipts: Receipts;
  readonly links: Links;
}

function CostTable({ turns, replays, receipts, links }: TableProps) {
  const { columns } = w;
  const whole = { figures: figuresOf(receipts.tokens), usd: receipts.usd };
  const heads = [
    columns.read,
    columns.written,
    columns.plain,
    columns.output,
    columns.share,
    columns.weighted,
    columns.usd,
  ];
  return (
    <div class="table">
      <table>
        <caption>{w.table}</caption>
        <thead>
          <tr>
            <th scope="col">{columns.call}</th>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        {turns.map((turn) => (
          <tbody key={turn.whole.key}>
            <tr class="turn-row">
              <th scope="rowgroup">{words.rounds.turn(turn.whole.turn)}</th>
              <Numbers figures={turn.whole.figures} usd={dollars(turn.whole.usd, turn.priced)} />
            </tr>
            {turn.calls.map((cost) => (
              <tr key={cost.key}>
                <th scope="row">
                  <CallName cost={cost} links={links} />
                </th>
                <Numbers figures={cost.figures} usd={dollars(cost.usd, true)} />
              </tr>
            ))}
          </tbody>
        ))}
        {replays.length > 0 && (
          <tbody>
            {replays.map((replay) => (
              <tr key={replay.key}>
                <th scope="row">
                  {w.replay} (<bdi>{visible(replay.model)}</bdi>)
                </th>
                <Numbers figures={replay.figures} usd={dollars(replay.usd, true)} />
              </tr>
            ))}
          </tbody>
        )}
        <tfoot>
          <tr>
            <th scope="row">{w.all}</th>
            <Numbers figures={whole.figures} usd={dollars(whole.usd, receipts.priced)} />
          </tr>
        </tfoot>
      </table>
      <p class="remark">{w.prices(receipts.prices_of)}</p>
    </div>
  );
}

function CallName({ cost, links }: { cost: Cost; links: Links }) {
  const { conversation, all, navigate } = links;
  if (cost.iteration === null) return <>{w.kinds[cost.kind as "title"] ?? cost.kind}</>;
  const placed = all.find((one) => one.turn.turn_id === cost.turnId && one.round.iteration === cost.iteration);
  const name = w.kinds.round(cost.iteration + 1);
  if (placed === undefined) return <>{name}</>;
  return (
    <Link href={addressOf(conversation, placed, "request")} navigate={navigate}>
      {name}
    </Link>
  );
}

function Numbers({ figures, usd }: { figures: Figures; usd: string }) {
  const weighted = formatNumber(Math.round(figures.weighted));
  return (
    <>
      <td>{formatNumber(figures.read)}</td>
      <td>{formatNumber(figures.written)}</td>
      <td>{formatNumber(figures.plain)}</td>
      <td>{formatNumber(figures.output)}</td>
      <td>{formatPercent(readShare(figures))}</td>
      <td>{figures.estimated ? w.about(weighted) : weighted}</td>
      <td>{usd}</td>
    </>
  );
}

/** Return dollars to the hundredth of a cent, marked if incomplete; a dash if no price is known. */
function dollars(usd: number | null, priced: boolean): string {
  if (usd === null || (usd === 0 && !priced)) return w.unpriced;
  if (usd === 0) return w.free;
  const said = usd.toFixed(4);
  return priced ? said : w.partly(said);
}
