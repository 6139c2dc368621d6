/**
 * The focus is never lost: when what has it goes away (a form that was sent, Stop when nothing runs), it goes to what is nearest.
 *
 * Only a focus that is seen is kept. Whoever points at things loses nothing, and a field would open a keyboard on the screen.
 */

/** Where the focus goes within a composer and within the title bar, whatever else there is. */
const HOMES = "#composer-field, .bar [popovertarget]";
const FOCUSABLE = "a[href], button, input, textarea, select, summary, [tabindex='0']";

/** Keep the focus of a document until the returned function is called. */
export function keepFocus(document: Document): () => void {
  let last: Element | null = null;
  let around: readonly Element[] = [];
  /** What had the focus before the dialog that has it now. */
  let behind: Element | null = null;
  const note = ({ target }: Event) => {
    const dialog = target instanceof Element ? target.closest("dialog") : null;
    if (!dialog?.contains(last)) behind = dialog && last;
    last = target instanceof Element && target.matches(":focus-visible") ? target : null;
    around = ancestorsOf(last);
  };
  const look = () => {
    const { activeElement } = document;
    const lost = last !== null && (!last.isConnected || last.matches(":disabled"));
    if (!lost || (activeElement !== document.body && activeElement !== last)) return;
    const next = placeOf(behind) ?? placeNear(around.filter((element) => element.isConnected));
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

/** Return what had the focus before, or what is nearest if that is not seen any more; null if it is gone. */
function placeOf(before: Element | null): HTMLElement | null {
  if (!(before instanceof HTMLElement) || !before.isConnected) return null;
  return before.getClientRects().length > 0 ? before : placeNear(ancestorsOf(before));
}

/** Return where the focus goes, given what was around it, from within. */
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
