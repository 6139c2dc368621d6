/** The log next to a request: batches with their entries, what the model had read, and the state after one batch. */

import { useEffect, useRef } from "preact/hooks";
import { words } from "../words/en/inspect.ts";
import { batchLines } from "./batch_lines.ts";
import { reveal } from "./bits.tsx";
import { type Batch, batchOf, type LogBook, pageOf, rangeAround } from "./log_book.ts";
import type { Placed } from "./rounds_list.ts";
import { oneLine } from "./text.ts";

const w = words.log;

interface LogProps {
  readonly book: LogBook;
  /** The current round, null for the running one. */
  readonly current: Placed | null;
  /** The newest batch of the conversation. */
  readonly newest: number;
  readonly selected: number | null;
  readonly select: (n: number) => void;
  readonly readPage: (page: number) => void;
}

export function LogPanel({ book, current, newest, selected, select, readPage }: LogProps) {
  const { decided_n: decided = 0, rendered_n: rendered = 0 } = current?.round ?? {};
  const known = batchOf(book, newest) ?? book.pages.get(pageOf(newest))?.at(-1);
  const shown = selected ?? (decided || (known?.n ?? newest));
  const range = rangeAround(book, shown);
  const list = useRef<HTMLOListElement>(null);
  // Late pages, and batches of a running round, do not move a user who has scrolled elsewhere.
  const moved = useRef(false);
  const move = () => {
    moved.current = true;
  };
  useEffect(() => {
    moved.current = false;
  }, [selected, decided]);
  useEffect(() => {
    const row = !moved.current && list.current?.querySelector(`[data-n="${shown}"]`);
    if (row) reveal(row);
  }, [shown, range?.first]);
  if (range === null) return <p class="remark reading">{words.loading}</p>;
  const { batches, first, last } = range;
  const selectedBatch = batches.find((batch) => batch.n === shown) ?? null;
  return (
    <>
      <h2 class="label">
        {w.title}
        <span>{batches.length > 0 && w.range(batches[0]?.n ?? 0, batches.at(-1)?.n ?? 0)}</span>
      </h2>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: it only observes that the user reads here */}
      <div class="scroll" onPointerDown={move} onWheel={move} onTouchMove={move} onKeyDown={move}>
        {first > 0 && (
          <button type="button" class="unfold wide" onClick={() => readPage(first - 1)}>
            {w.earlier}
          </button>
        )}
        <ol class="log" ref={list}>
          {batches.map((batch) => [
            <BatchRow
              key={batch.n}
              batch={batch}
              current={batch.n === decided}
              chosen={batch.n === selected}
              select={select}
            />,
            batch.n === rendered && (
              <li key="saw" class="saw">
                <span class="num" aria-hidden="true">
                  ↑
                </span>
                <span>{w.saw}</span>
              </li>
            ),
          ])}
        </ol>
        {book.last !== last && (
          <button type="button" class="unfold wide" onClick={() => readPage(last + 1)}>
            {w.later}
          </button>
        )}
      </div>
      {selectedBatch && <StateOf batch={selectedBatch} />}
    </>
  );
}

interface BatchProps {
  readonly batch: Batch;
  readonly current: boolean;
  readonly chosen: boolean;
  readonly select: (n: number) => void;
}

function BatchRow({ batch, current, chosen, select }: BatchProps) {
  const lines = batchLines(batch);
  const step = batch.step ?? "";
  const at = batch.at.slice(11, 23);
  return (
    <li aria-current={current ? "true" : undefined} class={chosen ? "chosen" : undefined} data-n={batch.n}>
      <button type="button" aria-pressed={chosen} onClick={() => select(batch.n)}>
        <span class="num">{batch.n}</span>
        <span class="entry-lines">
          {lines.map((line, index) => (
            <span key={index} class={line.startsWith("  ") || index > 0 ? "more-of" : undefined} dir="auto">
              {line.trimStart()}
            </span>
          ))}
          <small>{[at, oneLine(step)].filter(Boolean).join(" · ")}</small>
        </span>
      </button>
    </li>
  );
}

function StateOf({ batch }: { batch: Batch }) {
  const { state } = batch;
  const { cursor } = state;
  const facts: readonly (readonly [string, string])[] = [
    [w.facts.status, state.status],
    [w.facts.epoch, `${state.epoch}, ${state.claim}`],
    [w.facts.rendered, String(state.rendered)],
    [w.facts.cursor, w.cursor(cursor.iteration + 1, cursor.phase, cursor.action, state.actions)],
    ...(state.running ? [[w.facts.running, oneLine(state.running)] as const] : []),
    ...(state.parked ? [[w.facts.parked, String(state.parked)] as const] : []),
    ...(state.finalize ? [[w.facts.finalize, String(state.finalize)] as const] : []),
  ];
  return (
    <section class="behind" aria-label={`${w.state} ${w.afterBatch(batch.n)}`}>
      <h2 class="label">
        {w.state}
        <span>{w.afterBatch(batch.n)}</span>
      </h2>
      <dl class="state">
        {facts.map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} value`}>{value}</dd>])}
      </dl>
    </section>
  );
}

/** Return the pages that a round needs at once: those of its decision, of its input, and of its turn's start. */
export function pagesOf(current: Placed): readonly number[] {
  const { round, turn } = current;
  return [...new Set([round.decided_n, round.rendered_n, turn.opened_n].map(pageOf))];
}
