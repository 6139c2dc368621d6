/**
 * A difference of two requests as rows: identical runs, pieces that were added, removed or changed, and the first
 * different byte. Pure.
 */

import type { FirstDifference, PieceView, RequestDiff } from "../api/index.ts";

export type DiffRow =
  | { readonly is: "same"; readonly key: string; readonly tokens: number; readonly pieces: readonly PieceView[] }
  /** A run of removed pieces that is long enough to fold. */
  | { readonly is: "gone"; readonly key: string; readonly tokens: number; readonly pieces: readonly PieceView[] }
  | { readonly is: "first"; readonly key: string; readonly at: FirstDifference }
  | {
      readonly is: "piece";
      readonly key: string;
      readonly op: "added" | "removed" | "changed";
      readonly piece: PieceView;
      /** Its older form, null if it has none. */
      readonly before: PieceView | null;
    };

/** The number of adjacent removed pieces above which they fold. */
const GONE = 3;

/**
 * Return the rows of a difference. The mark of the first differing byte comes before its piece, and before the pieces
 * removed there.
 */
export function diffRows(diff: RequestDiff): readonly DiffRow[] {
  const rows = diff.runs.flatMap((run, at): DiffRow[] => {
    const { op } = run;
    if (op === "same") return [{ is: "same", key: `${at}`, tokens: run.tokens, pieces: run.pieces }];
    if (op === "removed" && run.pieces.length > GONE) {
      return [{ is: "gone", key: `${at}`, tokens: run.tokens, pieces: run.pieces }];
    }
    return run.pieces.map((piece, index) => {
      const before = op === "changed" ? (run.before[index] ?? null) : null;
      return { is: "piece", key: `${at}.${index}`, op, piece, before };
    });
  });
  const first = diff.first_difference;
  if (first === null) return rows;
  const place = placeOf(rows, first);
  return [...rows.slice(0, place), { is: "first", key: "first", at: first }, ...rows.slice(place)];
}

/**
 * Return the row of the first difference. Removed pieces have no position in the newer request: they follow the mark.
 */
function placeOf(rows: readonly DiffRow[], first: FirstDifference): number {
  const named = rows.findIndex((row) => row.is === "piece" && row.op !== "removed" && isAt(row.piece, first));
  const differs = rows.findIndex((row) => row.is !== "same");
  let place = named >= 0 ? named : differs >= 0 ? differs : rows.length;
  while (place > 0 && isGone(rows[place - 1])) place -= 1;
  return place;
}

function isGone(row: DiffRow | undefined): boolean {
  return row?.is === "gone" || (row?.is === "piece" && row.op === "removed");
}

function isAt(piece: PieceView, first: FirstDifference): boolean {
  return piece.n === first.n && piece.kind === first.kind && piece.path === first.path;
}

/** Return the key of the first changed row: after the first difference, "" if there is none. */
export function firstChanged(rows: readonly DiffRow[]): string {
  const at = rows.findIndex((row) => row.is === "first");
  return at < 0 ? "" : (rows[at + 1]?.key ?? "");
}
