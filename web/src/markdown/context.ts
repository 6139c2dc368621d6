/** Contract between a rendered text and the page around it. */

import type { ComponentChildren } from "preact";
import type { Source } from "../thread/thread.ts";

/** Keep it the same object as long as nothing of it changes: a text is drawn anew for another one. */
export interface MarkdownContext {
  readonly conversation: string;
  resolveSource(sid: number): Source | undefined;
  /** The number on the chip of a citation; the source's own number where this is missing. */
  numberOf?(sid: number): number | undefined;
  /** A citation is pointed at or has the focus; `null` when no longer. The element is where its card belongs. */
  onCite(sid: number, element: HTMLElement | null): void;
  onOpenPath(path: string): void;
  /** Draw the picture at a path; where this is missing, a link to it is drawn. */
  drawPicture?(path: string, alt: string): ComponentChildren;
}

/** The id of the card that describes the citation which is pointed at; every chip names it by `aria-describedby`. */
export const CITE_CARD_ID = "cite-card";

/** Return the page's own address of a logical path. */
export function pathAddress(conversation: string, path: string): string {
  return `/c/${encodeURIComponent(conversation)}/f/${path.split("/").map(encodeURIComponent).join("/")}`;
}
