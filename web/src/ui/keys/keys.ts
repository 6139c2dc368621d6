/** The keyboard map of the whole page. Pure: it maps a key and the situation to an action. */

export type KeyAct =
  | "search"
  | "new"
  | "next"
  | "previous"
  | "timeline"
  | "plan"
  | "files"
  | "sources"
  | "list"
  | "margin"
  | "help"
  | "escape"
  | "none";

const LETTERS: Readonly<Record<string, KeyAct>> = {
  "/": "search",
  n: "new",
  j: "next",
  k: "previous",
  t: "timeline",
  p: "plan",
  f: "files",
  s: "sources",
  "[": "list",
  "]": "margin",
  "?": "help",
};

/** The code of a key that an input method has consumed. */
const PROCESSED = 229;

export interface Pressed {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly defaultPrevented: boolean;
}

/** Return the action of a key; `writing` is true in a text field. */
export function keyAct(event: Pressed, writing: boolean, letters: boolean): KeyAct {
  if (event.defaultPrevented) return "none";
  if (event.key === "Escape") return "escape";
  if (!letters || writing || event.ctrlKey || event.metaKey || event.altKey) return "none";
  return LETTERS[event.key] ?? "none";
}

/**
 * Hide the keys of an input method from the page; return a function that undoes it.
 *
 * The Enter that confirms a character sends nothing, in any field. Safari ends the composition before that key, and
 * marks it only by its code. It would submit a form then, so that is prevented, too.
 */
export function leaveKeysToInputMethod(page: Document): () => void {
  const leave = (event: KeyboardEvent) => {
    if (!event.isComposing && event.keyCode !== PROCESSED) return;
    event.stopPropagation();
    if (event.key === "Enter" && !event.isComposing) event.preventDefault();
  };
  page.addEventListener("keydown", leave, { capture: true });
  return () => page.removeEventListener("keydown", leave, { capture: true });
}

/** Return true if an element accepts text, so that letters belong to it. */
export function takesText(element: Element | null): boolean {
  if (!(element instanceof HTMLElement)) return false;
  if (element instanceof HTMLInputElement) return !["button", "checkbox", "radio", "file"].includes(element.type);
  return element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement || element.isContentEditable;
}
