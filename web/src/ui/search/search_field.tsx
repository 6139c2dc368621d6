/** The search field, which opens the search page. */

import { useEffect, useRef } from "preact/hooks";
import { shell } from "../../words/en/shell.ts";
import { Icon } from "../app/icons.tsx";
import type { Page } from "../store/page.ts";
import { useStore } from "../store/store.ts";

export const SEARCH = "search-field";

/** `takesFocus`: it replaces the field in which the user has begun to type. */
export function SearchField({ page, takesFocus = false }: { page: Page; takesFocus?: boolean }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (!takesFocus) return;
    // First, the sheet with the other field restores the focus.
    const frame = requestAnimationFrame(() => {
      const element = field.current;
      element?.focus();
      element?.setSelectionRange(element.value.length, element.value.length);
    });
    return () => cancelAnimationFrame(frame);
  }, [takesFocus]);
  const route = useStore(page.route);
  const query = route.is === "search" ? route.query : "";
  return (
    <search class="find">
      <Icon name="find" />
      <input
        ref={field}
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
