/** The keyboard map of the whole page. Pure: a key and the situation in, an act out. */

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

export interface Pressed {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly isComposing: boolean;
  readonly defaultPrevented: boolean;
}

/** Return the act of a key; `writing` is true in a field that takes text. */
export function keyAct(event: Pressed, writing: boolean, letters: boolean): KeyAct {
  if (event.isComposing || event.defaultPrevented) return "none";
  if (event.key === "Escape") return "escape";
  if (event.ctrlKey || event.metaKey || event.altKey || writing) return "none";
  // The list of keys stays reachable: it has the switch that turns the letters on again.
  if (!letters && event.key !== "?") return "none";
  return LETTERS[event.key] ?? "none";
}

/** Return whether an element takes text, so that letters belong to it. */
export function takesText(element: Element | null): boolean {
  if (!(element instanceof HTMLElement)) return false;
  if (element instanceof HTMLInputElement) return !["button", "checkbox", "radio", "file"].includes(element.type);
  return element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement || element.isContentEditable;
}
