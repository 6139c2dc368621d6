/** The table of a file: cells are text. It shows 200 rows at first, and all on request. */

import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { say } from "../words/en/preview.ts";
import { readCsv } from "./csv.ts";

const ROWS = 200;
const COLUMNS_MAX = 60;
const CELL_CHARS = 1_000;

function shorten(cell: string): string {
  return cell.length > CELL_CHARS ? `${cell.slice(0, CELL_CHARS)}…` : cell;
}

function Row({ cells, columns, head }: { cells: readonly string[]; columns: number; head?: boolean }): VNode {
  const shown = Array.from({ length: columns }, (_, i) => shorten(cells[i] ?? ""));
  return <tr>{shown.map((cell) => (head ? <th dir="auto">{cell}</th> : <td dir="auto">{cell}</td>))}</tr>;
}

export function CsvView({ text }: { text: string }): VNode {
  const [all, setAll] = useState(false);
  const { header, rows } = useMemo(() => readCsv(text), [text]);
  const columns = Math.min(header.length, COLUMNS_MAX);
  const shown = all ? rows : rows.slice(0, ROWS);
  return (
    <div class="md">
      <div class="cut">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard */}
        <section class="grid" aria-label={say.shown} tabIndex={0}>
          <table>
            <thead>
              <Row cells={header} columns={columns} head />
            </thead>
            <tbody>
              {shown.map((cells) => (
                <Row cells={cells} columns={columns} />
              ))}
            </tbody>
          </table>
        </section>
        {header.length > columns && <p class="aside">{say.moreColumns(header.length - columns)}</p>}
        {shown.length < rows.length && (
          <button type="button" onClick={() => setAll(true)}>
            {say.allRows(rows.length)}
          </button>
        )}
      </div>
    </div>
  );
}
