// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, it, vi } from "vitest";

async function keysOn(userAgent: string): Promise<string> {
  vi.stubGlobal("navigator", { userAgent });
  vi.resetModules();
  const { KeysSheet } = await import("../../src/ui/app/keys_sheet.tsx");
  const root = document.body;
  act(() => render(<KeysSheet letters={false} setLetters={() => undefined} onClose={() => undefined} />, root));
  const keys = [...root.querySelectorAll("kbd")].map((key) => key.textContent).join();
  act(() => render(null, root));
  return keys;
}

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

it("names the command key only on Apple's devices", async () => {
  const apple = await keysOn("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)");
  const other = await keysOn("Mozilla/5.0 (X11; Linux x86_64)");
  expect(apple).toContain("⌘ Enter");
  expect(apple).not.toContain("Ctrl");
  expect(other).toContain("Ctrl Enter");
  expect(other).not.toContain("⌘");
});
