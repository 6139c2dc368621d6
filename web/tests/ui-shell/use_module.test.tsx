// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { expect, it } from "vitest";
import { loadOnce, useModule } from "../../src/ui/app/use_module.ts";
import { eventually } from "../eventually.ts";

function show(load: () => Promise<string>, onFailure?: () => void) {
  const Part = () => <p>{useModule(load, onFailure)}</p>;
  const root = document.createElement("div");
  return { root, draw: () => render(<Part />, root) };
}

it("renders once it has loaded, also between the first render and its effects", async () => {
  const load = async () => "here";
  const { root, draw } = show(load);
  draw();
  await loadOnce(load);
  await eventually(() => expect(root.textContent).toBe("here"));
});

it("renders at once if it was loaded before", async () => {
  const load = async () => "here";
  await loadOnce(load);
  const { root, draw } = show(load);
  act(draw);
  expect(root.textContent).toBe("here");
});

it("reports a failed load to its caller, and renders nothing", async () => {
  let failures = 0;
  const { root, draw } = show(
    () => Promise.reject(new Error("gone")),
    () => {
      failures += 1;
    },
  );
  act(draw);
  await eventually(() => expect(failures).toBe(1));
  expect(root.textContent).toBe("");
});
