// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Guard } from "../../src/ui/app/guard.tsx";

let root: HTMLElement;
let broken: boolean;

function Part() {
  if (broken) throw new Error("no such thing");
  return <p>drawn</p>;
}

function draw(place: string): string {
  act(() =>
    render(
      <>
        <Guard place={place}>
          <Part />
        </Guard>
        <textarea>kept</textarea>
      </>,
      root,
    ),
  );
  return root.textContent ?? "";
}

beforeEach(() => {
  root = document.createElement("div");
  broken = true;
  vi.spyOn(console, "error").mockImplementation(() => undefined);
});

afterEach(() => {
  act(() => render(null, root));
  vi.restoreAllMocks();
});

test("a part that fails to render says so, and leaves the parts next to it intact", () => {
  expect(draw("/c/one")).toContain("Reload");
  expect(root.querySelector("[role=alert]")?.textContent).not.toBe("");
  expect(root.querySelector("textarea")?.textContent).toBe("kept");
});

test("a failed part renders again at another address, not at the same one", () => {
  draw("/c/one");
  broken = false;
  expect(draw("/c/one")).not.toContain("drawn");
  expect(draw("/c/two")).toContain("drawn");
});
