/**
 * Preserves the focus: when the focused element disappears (a sent form, Stop after the end), the focus moves to the
 * nearest one.
 *
 * This applies only to a visible focus. A user who points needs none, and on a touch screen a focused field would open
 * the keyboard.
 */

/** The targets of the focus within a composer and within the title bar, before all others. */
const HOMES = "#composer-field, .bar [popovertarget]";
const FOCUSABLE = "a[href], button, input, textarea, select, summary, [tabindex='0']";

/** Preserve the focus of a document until the returned function is called. */
export function keepFocus(document: Document): () => void {
  let last: Element | null = null;
  let around: readonly Element[] = [];
  /** The focused element before the open dialog. */
  let underneath: Element | null = null;
  const note = ({ target }: Event) => {
    const dialog = target instanceof Element ? target.closest("dialog") : null;
    if (!dialog?.contains(last)) underneath = dialog && last;
    last = target instanceof Element && target.matches(":focus-visible") ? target : null;
    around = ancestorsOf(last);
  };
  const look = () => {
    const { activeElement } = document;
    const lost = last !== null && (!last.isConnected || last.matches(":disabled"));
    if (!lost || (activeElement !== document.body && activeElement !== last)) return;
    const next = placeOf(underneath) ?? placeNear(around.filter((element) => element.isConnected));
    last = null;
    next?.focus();
  };
  const observer = new MutationObserver(look);
  document.addEventListener("focusin", note);
  observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
  return () => {
    document.removeEventListener("focusin", note);
    observer.disconnect();
  };
}

function ancestorsOf(element: Element | null): readonly Element[] {
  const found: Element[] = [];
  for (let over = element?.parentElement; over; over = over.parentElement) found.push(over);
  return found;
}

/** Return the previously focused element, or the nearest one if it is no longer visible; null if it was removed. */
function placeOf(before: Element | null): HTMLElement | null {
  if (!(before instanceof HTMLElement) || !before.isConnected) return null;
  return before.getClientRects().length > 0 ? before : placeNear(ancestorsOf(before));
}

/** Return the next element to focus, given the ancestors of the old one, from the inside out. */
function placeNear(around: readonly Element[]): HTMLElement | null {
  const home = around.find((element) => element.matches(".composer, .bar"))?.querySelector<HTMLElement>(HOMES);
  if (home) return home;
  for (const element of around) {
    const found = [...element.querySelectorAll<HTMLElement>(FOCUSABLE)].find(
      (one) => !one.matches(":disabled") && one.tabIndex >= 0 && one.getClientRects().length > 0,
    );
    if (found) return found;
  }
  return null;
}
