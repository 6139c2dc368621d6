/** The difference of two requests: identical parts fold, and changes show their words. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PieceView, RequestDiff } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import { formatNumber, formatTokens } from "../words/format.ts";
import { FoldedText, reveal } from "./bits.tsx";
import { type DiffRow, diffRows, firstChanged } from "./diff_rows.ts";
import { Kind, type PieceContext } from "./piece.tsx";
import type { Placed } from "./rounds_list.ts";
import { byteLength, FOLDED_BYTES, showHidden } from "./text.ts";
import { diffWords, nearChanges } from "./word_diff.ts";

const w = words.diff;

interface ChoiceProps {
  readonly all: readonly Placed[];
  readonly current: Placed;
  readonly other: Placed | null;
  readonly choose: (other: Placed) => void;
}

/** The choice of the round to compare with. */
export function OtherRound({ all, current, other, choose }: ChoiceProps) {
  return (
    <label class="other">
      {w.against}{" "}
      <select
        value={other === null ? "" : String(all.indexOf(other))}
        onChange={(event) => {
          const chosen = all[Number(event.currentTarget.value)];
          if (chosen) choose(chosen);
        }}
      >
        {all.map((one, at) =>
          one === current ? null : (
            <option key={one.round.decided_n} value={String(at)}>
              {roundWords(one)}
            </option>
          ),
        )}
      </select>
    </label>
  );
}

function roundWords(placed: Placed): string {
  return words.rounds.of(placed.turnNumber, placed.round.iteration + 1);
}

interface DiffProps {
  readonly diff: RequestDiff;
  readonly older: Placed;
  readonly newer: Placed;
  readonly context: PieceContext;
}

export function DiffPanel({ diff, older, newer, context }: DiffProps) {
  const rows = useMemo(() => diffRows(diff), [diff]);
  const { bust } = newer.round;
  const marked = bust ? firstChanged(rows) : "";
  return (
    <>
      <p class="key row">{w.from(roundWords(older), roundWords(newer))}</p>
      {bust && (
        <p class="remark bust">
          {w.bust(
            formatTokens(bust.read_tokens),
            formatTokens(bust.expected_tokens),
            words.busts[bust.reason] ?? bust.reason,
          )}
        </p>
      )}
      {diff.first_difference === null && <p class="remark">{w.none}</p>}
      <div class="seen">
        {rows.map((row) => (
          <RowOf key={row.key} row={row} marked={row.key === marked} context={context} />
        ))}
      </div>
    </>
  );
}

interface RowProps {
  readonly row: DiffRow;
  readonly marked: boolean;
  readonly context: PieceContext;
}

function RowOf({ row, marked, context }: RowProps) {
  switch (row.is) {
    case "same":
    case "gone":
      return <FoldedRow row={row} marked={marked} context={context} />;
    case "piece":
      return <ChangedRow row={row} marked={marked} context={context} />;
    case "first":
      return (
        <p class="cachemark differs">
          <span />
          <span>{w.first(formatNumber(row.at.at_byte), formatNumber(row.at.at_tokens))}</span>
        </p>
      );
  }
}

interface FoldedProps extends RowProps {
  readonly row: DiffRow & { is: "same" | "gone" };
}

/** Adjacent pieces that are all identical, or all removed. */
function FoldedRow({ row, marked, context }: FoldedProps) {
  const [open, setOpen] = useState(false);
  const place = useMarked<HTMLDetailsElement>(marked);
  const gone = row.is === "gone";
  const edge = gone ? "gone" : "";
  return (
    <details class="folded" open={open} ref={place} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class={`piece ${edge} ${marked ? "chosen" : ""}`} aria-current={marked ? "true" : undefined}>
        <span class="num">{formatNumber(row.tokens)}</span>
        <i aria-hidden="true" />
        <span class="top">
          <span class="place">{gone ? w.gone(row.pieces.length) : w.same(row.pieces.length)}</span>
          {gone && <span class="pill bad">{w.ops.removed}</span>}
        </span>
      </summary>
      {open &&
        row.pieces.map((piece, at) => (
          <div class={`piece ${edge}`} key={at} data-op={gone ? "removed" : "same"}>
            <span class="num">{formatNumber(piece.tokens)}</span>
            <i aria-hidden="true" />
            <div>
              <Top piece={piece} context={context} />
              {gone && <Change piece={piece} before={null} op="removed" />}
            </div>
          </div>
        ))}
    </details>
  );
}

/** Scroll to the row that broke the cache. */
function useMarked<Row extends HTMLElement>(marked: boolean) {
  const place = useRef<Row>(null);
  useEffect(() => {
    if (marked && place.current) reveal(place.current);
  }, [marked]);
  return place;
}

function Top({ piece, context, op = "" }: { piece: PieceView; context: PieceContext; op?: string }) {
  return (
    <p class="top">
      <Kind piece={piece} chosen={piece.n > 0 && piece.n === context.selected} select={context.select} />
      <span class="place" dir="ltr" title={showHidden(piece.path)}>
        {showHidden(piece.path)}
      </span>
      {op && <span class={`pill ${op === "added" ? "ok" : op === "removed" ? "bad" : "accent"}`}>{w.ops[op]}</span>}
    </p>
  );
}

function ChangedRow({
  row,
  marked,
  context,
}: {
  row: DiffRow & { is: "piece" };
  marked: boolean;
  context: PieceContext;
}) {
  const place = useMarked<HTMLDivElement>(marked);
  const { piece, before, op } = row;
  const edge = { added: "new", changed: "new", removed: "gone" }[op];
  return (
    <div
      class={`piece ${edge} ${marked ? "chosen" : ""}`}
      aria-current={marked ? "true" : undefined}
      ref={place}
      data-op={op}
    >
      <span class="num">{formatNumber(piece.tokens)}</span>
      <i aria-hidden="true" />
      <div>
        <Top piece={piece} context={context} op={op} />
        {piece.hidden ? <p class="remark inline">{w.hidden}</p> : <Change piece={piece} before={before} op={op} />}
      </div>
    </div>
  );
}

function Change({ piece, before, op }: { piece: PieceView; before: PieceView | null; op: string }) {
  const bytes = byteLength(piece.text) + byteLength(before?.text ?? "");
  const [shown, setShown] = useState(bytes <= FOLDED_BYTES);
  if (before === null) {
    return <div class={op === "removed" ? "removed" : "added"}>{piece.text && <FoldedText text={piece.text} />}</div>;
  }
  if (shown) return <WordsOf older={before.text} newer={piece.text} />;
  return (
    <button type="button" class="unfold" onClick={() => setShown(true)}>
      {w.long(bytes)}
    </button>
  );
}

function WordsOf({ older, newer }: { older: string; newer: string }) {
  const all = useMemo(() => nearChanges(diffWords(older, newer)), [older, newer]);
  return (
    <pre dir="auto">
      {all.map((one, at) => {
        const text = showHidden(one.text);
        if (one.is === "added") return <ins key={at}>{text}</ins>;
        if (one.is === "removed") return <del key={at}>{text}</del>;
        return text;
      })}
    </pre>
  );
}
