/** Sources: search results, fetched pages and citations. A number identifies one source for the whole conversation. */

import type { ClientEvent } from "../client/index.ts";
import { changeCall } from "./calls.ts";
import { type Data, numberOf, numberOrNull, rowsOf, textOf, textsOf } from "./fields.ts";
import type { SearchResult, Source, Turn } from "./thread.ts";

export function citedSource(row: Data): Source {
  return {
    sid: numberOf(row, "sid"),
    title: textOf(row, "title"),
    url: textOf(row, "url"),
    path: textOf(row, "path"),
    snippet: "",
  };
}

export function searched(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const search = {
    objective: textOf(data, "objective"),
    queries: textsOf(data, "queries"),
    results: rowsOf(data, "results").map(found),
  };
  return changeCall(turn, textOf(data, "call_id"), (call) => ({ ...call, search }));
}

export function fetched(turn: Turn, event: ClientEvent): Turn {
  const { data } = event;
  const pages = {
    objective: textOf(data, "objective"),
    results: rowsOf(data, "results").map((row) => ({
      ...found(row),
      status: textOf(row, "status"),
      error: textOf(row, "error"),
    })),
  };
  return changeCall(turn, textOf(data, "call_id"), (call) => ({ ...call, fetched: pages }));
}

function found(row: Data): SearchResult {
  return {
    sid: numberOf(row, "sid"),
    title: textOf(row, "title"),
    url: textOf(row, "url"),
    snippet: textOf(row, "snippet") || textOf(row, "text"),
  };
}

/** Add the sources of an event; a known snippet stays. */
export function withSources(sources: ReadonlyMap<number, Source>, rows: readonly Data[]): ReadonlyMap<number, Source> {
  const next = new Map(sources);
  for (const row of rows) {
    const sid = numberOrNull(row, "sid");
    if (!sid) continue;
    const before = sources.get(sid);
    const { title, url, snippet } = found(row);
    const path = textOf(row, "path");
    next.set(sid, {
      sid,
      title: title || before?.title || "",
      url: url || before?.url || "",
      path: path || before?.path || "",
      snippet: snippet || before?.snippet || "",
    });
  }
  return next;
}
