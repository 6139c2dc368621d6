/** A text drawn into a document, and what stands there. */

import { h, render } from "preact";
import { Markdown, type MarkdownContext } from "../../src/markdown/index.ts";

export const CONVERSATION = "chat-1";

export function contextOf(more: Partial<MarkdownContext> = {}): MarkdownContext {
  return {
    conversation: CONVERSATION,
    resolveSource: () => undefined,
    onCite: () => undefined,
    onOpenPath: () => undefined,
    ...more,
  };
}

/** Draw a text, and return the element that holds it. */
export function draw(
  text: string,
  context: MarkdownContext = contextOf(),
  growing = false,
  root?: HTMLElement,
): HTMLElement {
  const place = root ?? document.createElement("div");
  render(h(Markdown, { text, growing, context }), place);
  return place;
}
