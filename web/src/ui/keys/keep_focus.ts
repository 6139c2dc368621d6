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
  const note = ({ target }: Event) => {
    last = target instanceof Element && target.matches(":focus-visible") ? target : null;
    around = ancestorsOf(last);
  };
  const look = () => {
    const { activeElement } = document;
    const lost = last !== null && (!last.isConnected || last.matches(":disabled"));
    if (!lost || (activeElement !== document.body && activeElement !== last)) return;
    const next = placeNear(around.filter((element) => element.isConnected));
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
