// @vitest-environment happy-dom
import { afterEach, expect, it, vi } from "vitest";
import { leaveKeysToInputMethod } from "../../src/ui/keys/keys.ts";

const undo = leaveKeysToInputMethod(document);
afterEach(() => document.body.replaceChildren());

function press(init: KeyboardEventInit): { heard: number; prevented: boolean } {
  const field = document.body.appendChild(document.createElement("input"));
  const listener = vi.fn();
  field.addEventListener("keydown", listener);
  document.addEventListener("keydown", listener);
  const event = new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...init });
  field.dispatchEvent(event);
  document.removeEventListener("keydown", listener);
  return { heard: listener.mock.calls.length, prevented: event.defaultPrevented };
}

it("an Enter that confirms a character reaches no input and submits nothing, in Safari's order, too", () => {
  expect(press({ key: "Enter", isComposing: true })).toEqual({ heard: 0, prevented: false });
  expect(press({ key: "Enter", keyCode: 229 })).toEqual({ heard: 0, prevented: true });
  expect(press({ key: "Process", keyCode: 229 })).toEqual({ heard: 0, prevented: false });
});

it("every other key reaches the page", () => {
  expect(press({ key: "Enter", keyCode: 13 })).toEqual({ heard: 2, prevented: false });
  undo();
  expect(press({ key: "Enter", keyCode: 229 })).toEqual({ heard: 2, prevented: false });
});
