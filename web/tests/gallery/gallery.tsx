/** One state of the thread as a page: `?state=<name>&theme=dark`; without a state, the list of them. */

import { render } from "preact";
import { useState } from "preact/hooks";
import { Margin } from "../../src/ui/margin/index.ts";
import { ThreadView } from "../../src/ui/turn/index.ts";
import "../setup.ts";
import { acts, contextOf } from "./context.ts";
import { type State, states } from "./fixtures.ts";

function Page({ state }: { state: State }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set(state.open));
  const toggle = (id: string) =>
    setOpen((before) => {
      const after = new Set(before);
      if (!after.delete(id)) after.add(id);
      return after;
    });
  const context = { ...contextOf(state), open, toggle };
  return (
    <main class="gallery sheet">
      <ThreadView thread={state.thread} acts={acts} context={context} />
      <Margin thread={state.thread} acts={acts} context={context} />
    </main>
  );
}

function List() {
  return (
    <main>
      <ul>
        {Object.keys(states).map((name) => (
          <li key={name}>
            <a href={`?state=${name}`}>{name}</a>
          </li>
        ))}
      </ul>
    </main>
  );
}

function show(): void {
  const chosen = new URLSearchParams(location.search);
  document.documentElement.dataset.theme = chosen.get("theme") ?? "light";
  document.documentElement.dir = chosen.get("dir") ?? "ltr";
  const state = states[chosen.get("state") ?? ""];
  render(state ? <Page state={state} /> : <List />, document.body);
  if (!state) return;
  for (const selector of state.press ?? []) {
    const found = document.querySelectorAll<HTMLElement>(selector);
    found[found.length - 1]?.click();
  }
  if (state.focus) document.querySelector<HTMLElement>(state.focus)?.focus();
  document.documentElement.dataset.shown = "yes";
}

show();
