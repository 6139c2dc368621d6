import { expect, it } from "vitest";
import { emptyState, foldFrames, parseFrame } from "../../src/client/index.ts";
import { emptyThread, foldEffects } from "../../src/thread/index.ts";
import { renderMarkdown } from "../../src/ui/menu/export.ts";
import { ending, opening } from "./scripted.ts";

it("an exported conversation has its prompts as headings and its answers unchanged", () => {
  const frames = [opening("m1", "Go\nnow"), ending(2, "Done **well**.")].map(parseFrame).filter((one) => one !== null);
  const [, effects] = foldFrames(emptyState("chat-one"), frames);
  const thread = foldEffects(emptyThread("chat-one"), effects);
  const text = "## Go now\n\n*2026-11-25T09:00:00.000Z*\n\nDone **well**.\n";
  expect(renderMarkdown("A title", thread, "")).toBe(`# A title\n\n${text}`);
  expect(renderMarkdown("A title", thread, "Branch 2 of 3 (chat-one)")).toBe(
    `# A title\n\n*Branch 2 of 3 (chat-one)*\n\n${text}`,
  );
});
