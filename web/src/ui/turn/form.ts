/** Shared parts of the small forms in a thread. */

import { useLayoutEffect, useRef } from "preact/hooks";

/** A field that takes the focus when it appears, since the user opened it. */
export function useFocus<T extends HTMLElement>() {
  const field = useRef<T>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return field;
}

/** Escape closes the form and nothing else. */
export function onEscape(close: () => void) {
  return (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
}
