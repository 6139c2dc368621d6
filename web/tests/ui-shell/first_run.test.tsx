// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { expect, it, vi } from "vitest";
import type { Acts } from "../../src/ui/acts.ts";
import { FirstRun } from "../../src/ui/first/first_run.tsx";
import type { Page } from "../../src/ui/store/page.ts";
import { Store } from "../../src/ui/store/store.ts";
import tour from "../../src/words/en/tour.json";

function draw(config: Readonly<Record<string, unknown>>) {
  const store = new Store({ phase: "ready", rows: [] });
  const page = { config, list: { store } } as unknown as Page;
  const acts = { fillComposer: vi.fn(), send: vi.fn() };
  const root = document.createElement("div");
  act(() => render(<FirstRun page={page} acts={acts as unknown as Acts} />, root));
  return { acts, chips: [...root.querySelectorAll<HTMLElement>(".chip")] };
}

it("offers suggestions for any model if the stage has none", () => {
  const labels = draw({ stage: "prod" }).chips.map((chip) => chip.textContent);
  expect(labels).toEqual(tour.slice(0, 3).map((row) => row.label));
});

it("offers the stage's suggestions, by label if there is one, and fills the input", () => {
  const { acts, chips } = draw({ stage: "local", suggestions: ["Where is order A-17?", tour[3]?.text] });
  expect(chips.map((chip) => chip.textContent)).toEqual(["Where is order A-17?", tour[3]?.label]);
  chips[0]?.click();
  expect(acts.fillComposer).toHaveBeenCalledWith("Where is order A-17?");
});
