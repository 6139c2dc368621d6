// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, describe, expect, it } from "vitest";
import { useWidth } from "../../src/ui/app/layout.ts";

const root = document.createElement("div");

function Shown() {
  return <p>{useWidth()}</p>;
}

function open(width: number): void {
  (window as unknown as { happyDOM: { setViewport(size: object): void } }).happyDOM.setViewport({ width, height: 800 });
  act(() => render(<Shown />, root));
}

afterEach(() => act(() => render(null, root)));

describe("the layout", () => {
  it.each([
    [1120, "wide"],
    [1119, "middle"],
    [719, "narrow"],
  ])("at %i px is %s", (width, layout) => {
    open(width);
    expect(root.textContent).toBe(layout);
  });

  it("of a narrow window is wide in print, so that plan and files are printed", () => {
    open(400);
    act(() => void dispatchEvent(new Event("beforeprint")));
    expect(root.textContent).toBe("wide");
    act(() => void dispatchEvent(new Event("afterprint")));
    expect(root.textContent).toBe("narrow");
  });
});
