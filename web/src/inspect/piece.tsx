/**
 * A piece of a request as a row: tokens, a colored edge, kind, path, and its text; shortened ones next to their
 * original.
 */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { BlocksView, PieceView, Reduced } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import { formatNumber } from "../words/format.ts";
import { Shown, useAnswer } from "./answer.tsx";
import { FoldedText } from "./bits.tsx";
import type { Shown as ShownPiece } from "./sections.ts";
import { systemSections } from "./sections.ts";
import type { Source } from "./source.ts";
import { oneLine, showHidden } from "./text.ts";

const w = words.request;
/** Frame lines of a turn and a round: their text is in the row's own line. */
const FRAMES: ReadonlySet<string> = new Set(["header", "round", "end", "status"]);
const EDGES = { read: "", written: "new", plain: "paid" } as const;

export interface PieceContext {
  readonly source: Source;
  /** The batch that is selected in the log, or whose piece is selected. */
  readonly selected: number | null;
  readonly select: (n: number) => void;
  /** The turn, from 1, since which the system part is unchanged; null if unknown. */
  readonly systemSince: number | null;
}

interface PieceProps {
  readonly shown: ShownPiece;
  readonly context: PieceContext;
  /** It is listed below its folded turn, whose tokens include its own. */
  readonly inFold?: boolean;
}

export function PieceRow({ shown, context, inFold = false }: PieceProps) {
  const { piece, cache, everyTime, isNew } = shown;
  const [opened, setOpened] = useState(false);
  const original = useId();
  const toggle = useRef<HTMLButtonElement>(null);
  const chosen = piece.n > 0 && piece.n === context.selected;
  const edge = piece.reduced ? "gone" : EDGES[cache];
  const closeOnEscape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !opened) return;
    event.preventDefault();
    setOpened(false);
    toggle.current?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes the part that an inner button opened
    <div
      onKeyDown={closeOnEscape}
      class={`piece ${edge} ${chosen ? "chosen" : ""} ${inFold ? "in-fold" : ""}`}
      data-n={piece.n}
    >
      <span class="num">{formatNumber(piece.tokens)}</span>
      <i aria-hidden="true" />
      <div>
        <p class="top">
          <Kind piece={piece} chosen={chosen} select={context.select} />
          <span class="vh">{w[cache]}</span>
          <span class="place" dir="ltr" title={showHidden(piece.path)}>
            {pathWords(piece)}
          </span>
          {piece.reduced && <ReducedPill piece={piece} reduced={piece.reduced} />}
          {everyTime && <span class="pill live">{w.everyTime}</span>}
          {isNew && !piece.reduced && <span class="pill">{w.newest}</span>}
          {piece.kind === "system" && context.systemSince !== null && (
            <span class="pill accent">{w.sameSince(context.systemSince)}</span>
          )}
        </p>
        {!opened && <Text piece={piece} />}
        {piece.reduced && (
          <>
            {opened && <Beside id={original} piece={piece} reduced={piece.reduced} source={context.source} />}
            {piece.reduced.path && (
              <button
                type="button"
                class="unfold"
                ref={toggle}
                aria-expanded={opened}
                aria-controls={opened ? original : undefined}
                onClick={() => setOpened(!opened)}
              >
                {opened ? w.hideOriginal : w.original}
              </button>
            )}
          </>
        )}
      </div>
    </div>
  );
}

/** The kind of a piece: a button that selects its batch, if it has one. */
export function Kind(props: { piece: PieceView; chosen: boolean; select: (n: number) => void }) {
  const { piece, chosen, select } = props;
  const kind = words.kinds[piece.kind] ?? piece.kind;
  if (piece.n === 0) return <code>{kind}</code>;
  return (
    <button type="button" class="kind" aria-pressed={chosen} title={w.select(piece.n)} onClick={() => select(piece.n)}>
      <code>{kind}</code>
    </button>
  );
}

function ReducedPill({ piece, reduced }: { piece: PieceView; reduced: Reduced }) {
  const more = reduced.from_tokens > piece.tokens;
  return <span class="pill">{more ? w.shortened(reduced.why, formatNumber(reduced.from_tokens)) : reduced.why}</span>;
}

function pathWords(piece: PieceView): string {
  if (piece.kind === "announce") return w.neverStored;
  if (FRAMES.has(piece.kind)) return oneLine(piece.text.replaceAll(/[━─┌┐└┘]+/g, " ")).replace(/^(TURN|ROUND) /, "");
  return showHidden(piece.path);
}

function Text({ piece }: { piece: PieceView }) {
  if (piece.hidden) return <p class="remark inline">{w.hidden}</p>;
  if (piece.kind === "system") return <Sections text={piece.text} />;
  if (piece.kind === "file") return <p class="remark inline">{`${w.file} ${piece.digest}`}</p>;
  if (FRAMES.has(piece.kind)) return null;
  if (!piece.text) return <p class="remark inline">{w.nothing}</p>;
  return <FoldedText text={piece.text} />;
}

/** The system part folds into its sections. */
function Sections({ text }: { text: string }) {
  const sections = systemSections(text);
  return (
    <>
      {sections.map((section) => (
        <details key={section.title} class="section">
          <summary>{oneLine(section.title, 90)}</summary>
          <FoldedText text={section.text} />
        </details>
      ))}
    </>
  );
}

interface BesideProps {
  readonly id: string;
  readonly piece: PieceView;
  readonly reduced: Reduced;
  readonly source: Source;
}

/** The model's input, next to the current content of the path. */
function Beside({ id, piece, reduced, source }: BesideProps) {
  const answer = useAnswer(`blocks ${reduced.path}`, () => source.blocks(reduced.path));
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.scrollIntoView({ block: "nearest" }), []);
  return (
    <div class="beside" id={id} ref={box}>
      <section aria-label={w.shown}>
        <h3>{w.shown}</h3>
        {piece.text ? <FoldedText text={piece.text} /> : <p>{w.nothing}</p>}
      </section>
      <section aria-label={w.before}>
        <h3>{w.before}</h3>
        <Shown answer={answer}>{(found) => <Originals found={found} />}</Shown>
      </section>
    </div>
  );
}

function Originals({ found }: { found: BlocksView }) {
  if (found.blocks.length === 0) return <p>{w.noOriginal}</p>;
  return (
    <>
      {found.blocks.map((block, at) => (
        <div key={at}>
          {block.text ? <FoldedText text={block.text} /> : <p>{w.binary(block.mime, block.size_bytes)}</p>}
        </div>
      ))}
    </>
  );
}
