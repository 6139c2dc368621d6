/** What the small forms of a thread share. */

import { useLayoutEffect, useRef } from "preact/hooks";

/** A field that has the focus as soon as it is there, since the reader asked for it. */
export function useFocus<T extends HTMLElement>() {
  const field = useRef<T>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return field;
}

/** Escape closes the form and nothing behind it. */
export function onEscape(close: () => void) {
  return (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
}
