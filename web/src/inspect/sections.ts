/**
 * A request as rows: pieces, folded turns, and the cache marks between them. Pure.
 *
 * Pieces of an earlier turn between two marks are one row that opens; of the newest turn, each piece is a row. Rows
 * keep the order of the request: the model reads them from top to bottom.
 */

import type { PartView, PieceView, RequestView } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import type { Placed } from "./rounds_list.ts";

export type CacheClass = PartView["cache"];

/** A piece, with its part's data from the request. */
export interface Shown {
  readonly key: string;
  readonly piece: PieceView;
  readonly cache: CacheClass;
  /** It is new since the previous round's request. */
  readonly isNew: boolean;
  /** It is sent anew in every request. */
  readonly everyTime: boolean;
}

export type Row =
  | { readonly is: "piece"; readonly key: string; readonly shown: Shown }
  | {
      readonly is: "turn";
      readonly key: string;
      /** From 1. */
      readonly turn: number;
      readonly cache: CacheClass;
      readonly rounds: number;
      readonly tokens: number;
      readonly pieces: readonly Shown[];
    }
  | {
      readonly is: "mark";
      readonly key: string;
      readonly mark: number;
      readonly tokens: number;
      readonly what: string;
    };

/** Return the rows of a request; `before` is the round that was decided before, null for the first. */
export function requestRows(
  view: RequestView,
  placed: Placed,
  before: Placed | null,
  turns: ReadonlyMap<string, number>,
): Row[] {
  const rows: Row[] = [];
  let tokens = 0;
  let mark = 0;
  view.parts.forEach((part, at) => {
    const shown = part.pieces.map((piece, index) => showPiece(part, piece, `${at}.${index}`, before));
    for (const one of shown) addPiece(rows, one, placed.turn.turn_id, turns);
    tokens += part.tokens;
    if (part.mark) {
      mark += 1;
      const what = describeMark(view.parts, at, before, turns);
      rows.push({ is: "mark", key: `m${mark}`, mark, tokens, what });
    }
  });
  return rows;
}

function showPiece(part: PartView, piece: PieceView, key: string, before: Placed | null): Shown {
  const everyTime = part.role === "announce" || part.role === "sources" || part.role === "journal";
  const isNew = !everyTime && before !== null && piece.n > before.round.rendered_n;
  return { key, piece, cache: part.cache, isNew, everyTime };
}

function addPiece(rows: Row[], shown: Shown, current: string, turns: ReadonlyMap<string, number>): void {
  const { turn } = shown.piece;
  const number = turns.get(turn);
  if (number === undefined || turn === current) {
    rows.push({ is: "piece", key: shown.key, shown });
    return;
  }
  const last = rows.at(-1);
  const open = last?.is === "turn" && last.turn === number ? last : null;
  const pieces = [...(open?.pieces ?? []), shown];
  const rounds = new Set(pieces.map((one) => one.piece.round).filter((round) => round > 0)).size;
  const sum = pieces.reduce((all, one) => all + one.piece.tokens, 0);
  if (open) rows.pop();
  rows.push({ is: "turn", key: pieces[0]?.key ?? "", turn: number, cache: shown.cache, rounds, tokens: sum, pieces });
}

/** Return the tokens that a request has before the mark after part `at`. */
function describeMark(
  parts: readonly PartView[],
  at: number,
  before: Placed | null,
  turns: ReadonlyMap<string, number>,
): string {
  const { marks } = words.request;
  const part = parts[at];
  const last = part?.pieces.at(-1);
  if (part?.role === "journal") return marks.end;
  if (part?.role !== "timeline" || last === undefined) return marks.system;
  const next = parts[at + 1];
  if (next?.role !== "timeline") return marks.end;
  if (before !== null && last.n === before.round.rendered_n) return marks.before;
  const turn = turns.get(last.turn);
  if (turn !== undefined && next.pieces[0]?.turn !== last.turn) return marks.turn(turn);
  return marks.batch(last.n);
}

/** Return the number of tokens that pieces lost by shortening. */
export function leftOut(view: RequestView): number {
  const pieces = view.parts.flatMap((part) => part.pieces);
  return pieces.reduce(
    (sum, piece) => sum + (piece.reduced ? Math.max(0, piece.reduced.from_tokens - piece.tokens) : 0),
    0,
  );
}

/** Return why pieces were shortened, each reason once, and from how many tokens; null if none was. */
export function reductionOf(pieces: readonly Shown[]): { readonly why: string; readonly from: number } | null {
  const reduced = pieces.flatMap((one) => (one.piece.reduced ? [one.piece.reduced] : []));
  if (reduced.length === 0) return null;
  const why = [...new Set(reduced.map((one) => one.why))].join(", ");
  return { why, from: reduced.reduce((sum, one) => sum + one.from_tokens, 0) };
}

/** The number of pieces that a folded turn still lists, and the minimum loss of each. */
const LISTED = 3;
const LISTED_MIN_LOSS = 100;

/** Return the pieces that lost most by shortening, in the order of the request. */
export function shortenedMost(pieces: readonly Shown[]): readonly Shown[] {
  const lost = ({ piece }: Shown) => (piece.reduced ? piece.reduced.from_tokens - piece.tokens : 0);
  const most = pieces.filter((one) => lost(one) >= LISTED_MIN_LOSS).sort((a, b) => lost(b) - lost(a));
  const listed = new Set(most.slice(0, LISTED));
  return pieces.filter((one) => listed.has(one));
}

/** A section of the system part: its heading, and its text. */
export interface Section {
  readonly title: string;
  readonly text: string;
}

/**
 * Return the sections of a system part. A section starts at each top-level heading, or at a line in brackets such as
 * `[TOOLS]`.
 */
export function systemSections(text: string): readonly Section[] {
  const begin = /^(?:# .+|\[[A-Z][A-Z ]+\].*)$/m;
  const parts: Section[] = [];
  let rest = text;
  while (rest) {
    const next = rest.slice(1).search(begin);
    const end = next < 0 ? rest.length : next + 1;
    const own = rest.slice(0, end);
    const [title = ""] = own.trim().split("\n", 1);
    parts.push({ title: title.replace(/^# /, ""), text: own });
    rest = rest.slice(end);
  }
  return parts;
}
