/** A JSON value as a tree of `<details>`: nothing is cut, long values are closed. */

import { useState } from "preact/hooks";
import { visible, visibleOrder } from "../../markdown/index.ts";
import { say } from "../../words/en/thread.ts";

const shown = 100;

function Scalar({ value }: { value: unknown }) {
  if (typeof value === "string") {
    // The user must read an approval in the order in which it is processed.
    return (
      <span class="text" dir="auto">
        {visibleOrder(value)}
      </span>
    );
  }
  return <code>{JSON.stringify(value) ?? "undefined"}</code>;
}

function entriesOf(value: object): (readonly [string, unknown])[] {
  return Array.isArray(value) ? value.map((item, at) => [String(at), item] as const) : Object.entries(value);
}

/** The summary of a closed branch. */
export function gist(value: unknown): string {
  if (typeof value === "string") return value.length > 80 ? `${value.slice(0, 79)}…` : value;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "";
  const entries = entriesOf(value);
  if (entries.length === 0) return say.empty;
  if (Array.isArray(value)) return say.items(entries.length);
  return entries.map(([key]) => visible(key)).join(", ");
}

export function JsonTree({ value, depth = 0 }: { value: unknown; depth?: number }) {
  const [all, setAll] = useState(false);
  if (typeof value !== "object" || value === null) return <Scalar value={value} />;
  const entries = entriesOf(value);
  return (
    <ul class="json">
      {(all ? entries : entries.slice(0, shown)).map(([key, item]) => (
        <li key={key}>
          {typeof item === "object" && item !== null && entriesOf(item).length > 0 ? (
            <details open={depth < 1 && entriesOf(item).length <= 8}>
              <summary>
                <code dir="ltr">{visible(key)}</code> <span class="gist">{gist(item)}</span>
              </summary>
              <JsonTree value={item} depth={depth + 1} />
            </details>
          ) : (
            <>
              <code dir="ltr">{visible(key)}</code>{" "}
              {typeof item === "object" && item ? say.empty : <Scalar value={item} />}
            </>
          )}
        </li>
      ))}
      {entries.length > shown && !all && (
        <li>
          <button type="button" class="longer" onClick={() => setAll(true)}>
            {say.moreItems(entries.length - shown)}
          </button>
        </li>
      )}
    </ul>
  );
}
