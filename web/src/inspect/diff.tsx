/** The difference of two requests: what is the same folds, what changed shows its words. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PieceView, RequestDiff } from "../api";
import { formatNumber, formatTokens } from "../words/format";
import { FoldedText } from "./bits";
import { type DiffRow, diffRows, firstChanged } from "./diff_rows";
import { Kind, type PieceContext } from "./piece";
import type { Placed } from "./rounds_list";
import { byteLength, FOLDED_BYTES, showHidden } from "./text";
import { diffWords, nearChanges } from "./word_diff";
import { words } from "./words";

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
  if (row.is === "same") return <SameRow row={row} context={context} />;
  if (row.is === "first") {
    return (
      <p class="cachemark first">
        <span />
        <span>{w.first(formatNumber(row.at.at_byte), formatNumber(row.at.at_tokens))}</span>
      </p>
    );
  }
  return <ChangedRow row={row} marked={marked} context={context} />;
}

function SameRow({ row, context }: { row: DiffRow & { is: "same" }; context: PieceContext }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="folded" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="piece">
        <span class="num">{formatNumber(row.tokens)}</span>
        <i aria-hidden="true" />
        <span class="top">
          <span class="path">{w.same(row.pieces.length)}</span>
        </span>
      </summary>
      {open &&
        row.pieces.map((piece) => (
          <div class="piece" key={`${piece.n} ${piece.kind} ${piece.path} ${piece.digest}`}>
            <span class="num">{formatNumber(piece.tokens)}</span>
            <i aria-hidden="true" />
            <Top piece={piece} context={context} />
          </div>
        ))}
    </details>
  );
}

function Top({ piece, context, op = "" }: { piece: PieceView; context: PieceContext; op?: string }) {
  return (
    <p class="top">
      <Kind piece={piece} chosen={piece.n > 0 && piece.n === context.selected} select={context.select} />
      <span class="path" dir="ltr" title={showHidden(piece.path)}>
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
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (marked) place.current?.scrollIntoView({ block: "center" });
  }, [marked]);
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
    <button type="button" class="more" onClick={() => setShown(true)}>
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
        // biome-ignore lint/suspicious/noArrayIndexKey: words have nothing else to tell them apart, and never move
        if (one.is === "added") return <ins key={at}>{text}</ins>;
        // biome-ignore lint/suspicious/noArrayIndexKey: as above
        if (one.is === "removed") return <del key={at}>{text}</del>;
        return text;
      })}
    </pre>
  );
}
