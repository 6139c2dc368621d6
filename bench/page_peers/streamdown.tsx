/** Streamdown, a renderer of growing Markdown: answers in a column, a field below. */

import { useSyncExternalStore } from "react";
import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import { Streamdown } from "streamdown";
import "streamdown/styles.css";
import { offer } from "../../web/tests/bench/measure.ts";
import "./peer.css";

interface Message {
  readonly prompt: string;
  readonly answer: string;
}

let messages: readonly Message[] = [];
let drawn = messages;
let grows = false;
let redraw = () => {};

function subscribe(watcher: () => void): () => void {
  redraw = watcher;
  return () => {};
}

function Page() {
  const shown = useSyncExternalStore(subscribe, () => drawn);
  return (
    <main>
      <div className="thread">
        <div className="roll">
          {shown.length === 0 && <h1>Ask a question</h1>}
          {shown.map(({ prompt, answer }, at) => (
            <article key={String(at)}>
              <h2>{prompt}</h2>
              <Streamdown isAnimating={grows && at === shown.length - 1}>{answer}</Streamdown>
            </article>
          ))}
        </div>
      </div>
      <textarea />
    </main>
  );
}

createRoot(document.getElementById("page") as HTMLElement).render(<Page />);
offer({
  begin(prompt) {
    messages = [...messages, { prompt, answer: "" }];
    grows = true;
  },
  push(piece) {
    const { prompt, answer } = messages[messages.length - 1] as Message;
    messages = messages.with(-1, { prompt, answer: answer + piece });
  },
  end() {
    messages = [...messages];
    grows = false;
  },
  draw() {
    drawn = messages;
    flushSync(redraw);
  },
  drawsAtOnce: true,
});
