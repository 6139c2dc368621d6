/** A text drawn into a document, and what stands there. */

import { h, render } from "preact";
import { expect } from "vitest";
import { Markdown, type MarkdownContext } from "../../src/markdown/index.ts";
import { eventually } from "../eventually.ts";

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

/** Load what draws formulas, as the first one does. */
export async function loadFormulas(): Promise<void> {
  const first = draw("$x$");
  await eventually(() => expect(first.querySelector("math")).not.toBeNull());
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
