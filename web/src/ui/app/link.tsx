/** A link within the page: its address can be copied or opened in a tab, and a click needs no reload. */

import type { ComponentChildren } from "preact";
import { isPlainClick } from "../../markdown/index.ts";
import { formatRoute, type Route } from "../route.ts";
import type { Page } from "../store/page.ts";

interface LinkProps {
  readonly page: Page;
  readonly route: Route;
  readonly children: ComponentChildren;
  readonly class?: string;
  readonly label?: string;
  readonly current?: boolean;
  /** Its keyboard shortcuts, as for `aria-keyshortcuts`. */
  readonly keys?: string;
  /** Called instead of navigating to the route. */
  readonly onFollow?: () => void;
}

export function Link({ page, route, children, label, keys, current = false, onFollow, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    if (onFollow) onFollow();
    else page.go(route);
  };
  return (
    <a
      href={formatRoute(route)}
      class={rest.class}
      aria-label={label}
      aria-keyshortcuts={keys}
      aria-current={current ? "page" : undefined}
      onClick={follow}
    >
      {children}
    </a>
  );
}
