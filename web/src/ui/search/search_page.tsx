/** Hits in titles and text, by conversation, each with the matching line. */

import { useEffect } from "preact/hooks";
import type { SearchItem } from "../../api/index.ts";
import { visible } from "../../markdown/index.ts";
import { shell } from "../../words/en/shell.ts";
import { Link } from "../app/link.tsx";
import { matchTitles, rowsOfTrees } from "../list/rows.ts";
import { type Route, threadOf } from "../route.ts";
import type { Page } from "../store/page.ts";
import { useStore } from "../store/store.ts";
import { groupHits } from "./search.ts";
import { SearchField } from "./search_field.tsx";

const { search: words } = shell;
const TITLES_MAX = 8;

/** `field`: the search field is on this page, since there is no column for it. */
export function SearchPage({ page, query, field }: { page: Page; query: string; field: boolean }) {
  const { rows } = useStore(page.list.store);
  const found = useStore(page.search.store);
  useEffect(() => page.search.ask(query), [page, query]);
  const asked = query.trim();
  const titles = asked ? matchTitles(rowsOfTrees(rows), asked).slice(0, TITLES_MAX) : [];
  const names = new Map(rows.map((row) => [row.conversation, row.title]));
  const groups = groupHits(found.items);
  const nothing = found.phase === "ready" && titles.length === 0 && groups.length === 0;
  return (
    <section class="hits" aria-label={words.results} aria-busy={found.phase === "asking"}>
      {field && <SearchField page={page} takesFocus />}
      {!asked && <p class="empty">{words.ask}</p>}
      {titles.length > 0 && (
        <div>
          <h2 class="label">{words.titles}</h2>
          {titles.map((row) => (
            <Link key={row.conversation} page={page} route={threadOf(row.conversation)} class="title">
              <bdi>{visible(row.title) || shell.list.untitled}</bdi>
            </Link>
          ))}
        </div>
      )}
      {groups.map((group) => (
        <div key={group.conversation}>
          <h2>
            <Link page={page} route={threadOf(group.conversation)}>
              <bdi>{visible(names.get(group.conversation) ?? "") || shell.list.untitled}</bdi>
            </Link>
          </h2>
          {group.items.map((item, at) => (
            <Hit key={at} page={page} item={item} />
          ))}
        </div>
      ))}
      {found.phase === "asking" && <p class="empty late">{words.asking}</p>}
      {nothing && <p class="empty">{words.none(asked)}</p>}
      {found.phase === "failed" && <p class="empty">{words.failed}</p>}
      {found.isPartial && <p class="empty">{words.newestMissing}</p>}
      {found.next && (
        <button type="button" class="more" onClick={() => page.search.more()}>
          {words.more}
        </button>
      )}
    </section>
  );
}

function Hit({ page, item }: { page: Page; item: SearchItem }) {
  return (
    <Link page={page} route={placeOf(item)} class="hit">
      <span class="num">{words.kinds[item.kind] ?? item.kind}</span>
      <span dir="auto">
        {item.excerpt.map((piece, at) => (piece.hit ? <mark key={at}>{piece.text}</mark> : piece.text))}
      </span>
    </Link>
  );
}

function placeOf(item: SearchItem): Route {
  const thread = { is: "thread", conversation: item.conversation, file: "" } as const;
  return { ...thread, place: { turnId: item.turn_id, iteration: null, callId: "" } };
}
