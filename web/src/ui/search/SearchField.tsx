/** The field of the search, which leads to its page. */

import { Icon } from "../app/icons.tsx";
import { shell } from "../app/words.ts";
import type { Page } from "../store/page.ts";
import { useStore } from "../store/store.ts";

export const SEARCH = "search-field";

export function SearchField({ page }: { page: Page }) {
  const route = useStore(page.route);
  const query = route.is === "search" ? route.query : "";
  return (
    <search class="find">
      <Icon name="find" />
      <input
        id={SEARCH}
        type="search"
        placeholder={shell.search.label}
        aria-label={shell.search.label}
        autocomplete="off"
        dir="auto"
        value={query}
        onInput={(event) => page.go({ is: "search", query: event.currentTarget.value }, route.is === "search")}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || route.is !== "search") return;
          event.preventDefault();
          page.closeSearch();
        }}
      />
      <kbd>/</kbd>
    </search>
  );
}
