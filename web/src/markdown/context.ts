/** The contract between a rendered text and the page around it. */

import type { ComponentChildren } from "preact";
import type { Source } from "../thread/thread.ts";

/** Keep it the same object while nothing in it changes: a new object renders the text again. */
export interface MarkdownContext {
  readonly conversation: string;
  resolveSource(sid: number): Source | undefined;
  /** The number on the chip of a citation; if missing, the source's own number. */
  numberOf?(sid: number): number | undefined;
  /** A citation is under the pointer or has the focus; `null` when it no longer is. Its card belongs at the element. */
  onCite(sid: number, element: HTMLElement | null): void;
  onOpenPath(path: string): void;
  /** Renders the picture at a path; if missing, a link to it is rendered. */
  drawPicture?(path: string, alt: string): ComponentChildren;
}

/** The id of the card that describes the active citation; every chip references it by `aria-describedby`. */
export const CITE_CARD_ID = "cite-card";

/** Return the page's own address of a logical path. */
export function pathAddress(conversation: string, path: string): string {
  return `/c/${encodeURIComponent(conversation)}/f/${path.split("/").map(encodeURIComponent).join("/")}`;
}
