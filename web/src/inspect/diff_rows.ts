/** A difference of two requests as rows: runs that are the same, pieces that came, went or changed, and the first byte. Pure. */

import type { FirstDifference, PieceView, RequestDiff } from "../api";

export type DiffRow =
  | { readonly is: "same"; readonly key: string; readonly tokens: number; readonly pieces: readonly PieceView[] }
  | { readonly is: "first"; readonly key: string; readonly at: FirstDifference }
  | {
      readonly is: "piece";
      readonly key: string;
      readonly op: "added" | "removed" | "changed";
      readonly piece: PieceView;
      /** Its older form, null if it has none. */
      readonly before: PieceView | null;
    };

/** Return the rows of a difference; the first differing byte stands in front of its piece. */
export function diffRows(diff: RequestDiff): readonly DiffRow[] {
  const rows = diff.runs.flatMap((run, at): DiffRow[] => {
    const { op } = run;
    if (op === "same") return [{ is: "same", key: `${at}`, tokens: run.tokens, pieces: run.pieces }];
    return run.pieces.map((piece, index) => {
      const before = op === "changed" ? (run.before[index] ?? null) : null;
      return { is: "piece", key: `${at}.${index}`, op, piece, before };
    });
  });
  const first = diff.first_difference;
  if (first === null) return rows;
  const named = rows.findIndex((row) => row.is === "piece" && isAt(row.piece, first));
  const differs = rows.findIndex((row) => row.is === "piece");
  const place = named >= 0 ? named : differs >= 0 ? differs : rows.length;
  return [...rows.slice(0, place), { is: "first", key: "first", at: first }, ...rows.slice(place)];
}

function isAt(piece: PieceView, first: FirstDifference): boolean {
  return piece.n === first.n && piece.kind === first.kind && piece.path === first.path;
}

/** Return the key of the first piece behind which a cache held no more: that of the first difference, "" if there is none. */
export function firstChanged(rows: readonly DiffRow[]): string {
  const at = rows.findIndex((row) => row.is === "first");
  return rows.slice(Math.max(0, at)).find((row) => row.is === "piece")?.key ?? "";
}
