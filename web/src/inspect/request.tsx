/** The request of a round: its parts in order, the size of each piece, and what the cache saved. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { RequestView } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import { formatNumber } from "../words/format.ts";
import { reveal } from "./bits.tsx";
import type { Figures } from "./figures.ts";
import { type PieceContext, PieceRow } from "./piece.tsx";
import type { Placed } from "./rounds_list.ts";
import { leftOut, type Row, reductionOf, requestRows, shortenedMost } from "./sections.ts";

const w = words.request;
const DIGEST_CHARS = 12;

interface RequestProps {
  readonly view: RequestView;
  readonly figures: Figures;
  readonly placed: Placed;
  readonly before: Placed | null;
  readonly turns: ReadonlyMap<string, number>;
  readonly context: PieceContext;
}

export function RequestPanel({ view, figures, placed, before, turns, context }: RequestProps) {
  const rows = requestRows(view, placed, before, turns);
  const list = useRef<HTMLDivElement>(null);
  useShownSelection(list, context.selected);
  const digest = view.digest.slice(0, DIGEST_CHARS);
  return (
    <>
      <p class="key row">
        <span>
          <i class="read" aria-hidden="true" />
          {w.read} {formatNumber(figures.read)}
        </span>
        <span>
          <i class="write" aria-hidden="true" />
          {w.written} {formatNumber(figures.written)}
        </span>
        <span>
          <i class="plain" aria-hidden="true" />
          {w.plain} {formatNumber(figures.plain)}
        </span>
        <span>
          <i class="hatch" aria-hidden="true" />
          {w.leftOut} {formatNumber(leftOut(view))}
        </span>
      </p>
      <div class="seen" ref={list}>
        {rows.map((row) => (
          <RowOf key={row.key} row={row} context={context} />
        ))}
      </div>
      <p class="remark">
        {w.pieces(formatNumber(view.tokens), view.max_tokens ? formatNumber(view.max_tokens) : "")}{" "}
        <span class={view.equal ? "proof" : "proof bad"}>{view.equal ? w.equal(digest) : w.unequal(digest)}</span>
      </p>
    </>
  );
}

/** Scroll to the first piece of the selected batch; a visible one does not move. */
function useShownSelection(list: { readonly current: HTMLElement | null }, selected: number | null): void {
  useEffect(() => {
    const chosen = selected !== null && list.current?.querySelector(".chosen");
    if (chosen) reveal(chosen);
  }, [list, selected]);
}

function RowOf({ row, context }: { row: Row; context: PieceContext }) {
  if (row.is === "piece") return <PieceRow shown={row.shown} context={context} />;
  if (row.is === "turn") return <TurnRow row={row} context={context} />;
  return (
    <p class="cachemark">
      <span>{w.mark(row.mark)}</span>
      <span>{w.atMark(formatNumber(row.tokens), row.what)}</span>
    </p>
  );
}

/**
 * Pieces of an earlier turn: one line, or every piece when it is open. While it is closed, its most shortened pieces
 * are listed below the line. A selected batch of the turn opens it.
 */
function TurnRow({ row, context }: { row: Row & { is: "turn" }; context: PieceContext }) {
  const [open, setOpen] = useState(false);
  const holds = row.pieces.some((one) => one.piece.n === context.selected);
  const shown = open || holds;
  const reduced = reductionOf(row.pieces);
  const edge = { read: "", written: "new", plain: "paid" }[row.cache];
  return (
    <>
      <details class="folded" open={shown} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary class={`piece ${edge}`}>
          <span class="num">{formatNumber(row.tokens)}</span>
          <i class={reduced ? "half" : undefined} aria-hidden="true" />
          <span class="top">
            <code>{w.group(row.turn)}</code>
            <span class="vh">{w[row.cache]}</span>
            <span class="place">{w.groupOf(row.rounds, row.pieces.length)}</span>
            {reduced && <span class="pill">{w.shortened(reduced.why, formatNumber(reduced.from))}</span>}
          </span>
        </summary>
        {shown && row.pieces.map((one) => <PieceRow key={one.key} shown={one} context={context} />)}
      </details>
      {!shown &&
        shortenedMost(row.pieces).map((one) => <PieceRow key={one.key} shown={one} context={context} inFold />)}
    </>
  );
}
