/** Renders a text into the document, and reads the result. */

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

/** Load the formula renderer, as the first formula does. */
export async function loadFormulas(): Promise<void> {
  const first = draw("$x$");
  await eventually(() => expect(first.querySelector("math")).not.toBeNull());
}

/** Render a text, and return the element that holds it. */
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
