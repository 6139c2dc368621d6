/** A rendered thread: drawn into the document, with recorded actions. */

import { render } from "preact";
import { act } from "preact/test-utils";
import type { Thread } from "../../src/thread/thread.ts";
import type { Acts, ThreadContext } from "../../src/ui/acts.ts";
import { Margin } from "../../src/ui/margin/index.ts";
import { ThreadView } from "../../src/ui/turn/index.ts";
import { contextOf, acts as gallery } from "../gallery/context.ts";
import { type State, states } from "../gallery/fixtures.ts";

type ActCall = readonly [act: keyof Acts, ...rest: unknown[]];

export class Shown {
  readonly root = document.createElement("main");
  /** The user's actions, in order. */
  readonly called: ActCall[] = [];
  /** The codes with which approvals and ratings are answered; "" if none are left. */
  readonly refusals: string[] = [];
  thread: Thread;
  context: ThreadContext;

  constructor(state: State) {
    this.thread = state.thread;
    this.context = { ...contextOf(state), toggle: (id) => this.#toggle(id) };
    document.body.replaceChildren(this.root);
    this.draw();
    for (const selector of state.press ?? []) this.press([...this.all(selector)].at(-1) as HTMLElement);
  }

  draw(more: Partial<ThreadContext> = {}, thread: Thread = this.thread): void {
    this.thread = thread;
    this.context = { ...this.context, ...more };
    act(() => {
      render(
        <>
          <ThreadView thread={this.thread} acts={this.acts} context={this.context} />
          <Margin thread={this.thread} acts={this.acts} context={this.context} />
        </>,
        this.root,
      );
    });
  }

  #toggle(id: string): void {
    const open = new Set(this.context.open);
    if (!open.delete(id)) open.add(id);
    this.draw({ open });
  }

  all(selector: string): HTMLElement[] {
    return [...this.root.querySelectorAll<HTMLElement>(selector)];
  }

  one(selector: string): HTMLElement {
    const found = this.root.querySelector<HTMLElement>(selector);
    if (!found) throw new Error(`nothing is ${selector}`);
    return found;
  }

  /** The button whose name begins with these words. */
  button(name: string): HTMLButtonElement {
    const found = this.all("button").find((button) => nameOf(button).startsWith(name));
    if (!found) throw new Error(`no button is called ${name}: ${this.all("button").map(nameOf).join(", ")}`);
    return found as HTMLButtonElement;
  }

  has(name: string): boolean {
    return this.all("button").some((button) => nameOf(button).startsWith(name));
  }

  press(element: HTMLElement, more: MouseEventInit = {}): void {
    act(() => {
      element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ...more }));
    });
  }

  key(element: Element, key: string, more: KeyboardEventInit = {}): void {
    act(() => {
      element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
    });
  }

  scroll(element: Element): void {
    act(() => {
      element.dispatchEvent(new Event("scroll"));
    });
  }

  type(field: Element, text: string): void {
    act(() => {
      (field as HTMLTextAreaElement).value = text;
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    });
  }

  /** Let the promises of actions resolve. */
  async settle(): Promise<void> {
    await act(async () => {
      await Promise.resolve();
    });
  }

  /** The whole text, with single spaces. */
  get text(): string {
    return textOf(this.root);
  }

  readonly acts = new Proxy({} as Acts, {
    get:
      (_, name: keyof Acts) =>
      (...rest: unknown[]) => {
        if (name === "readReceipt") return gallery.readReceipt("");
        if (name === "loadPicture") return gallery.loadPicture(String(rest[0]), new AbortController().signal);
        this.called.push([name, ...rest]);
        return Promise.resolve(this.refusals.shift() ?? "");
      },
  });
}

export function textOf(element: Element): string {
  return (element.textContent ?? "").replace(/\s+/g, " ").trim();
}

function nameOf(button: Element): string {
  return button.getAttribute("aria-label") ?? textOf(button);
}

/** Show a state of the gallery. */
export function show(name: string, more: Partial<State> = {}): Shown {
  const state = states[name];
  if (!state) throw new Error(`no state is called ${name}`);
  return new Shown({ ...state, ...more });
}
