/** Our renderer of Markdown alone. */

import { render } from "preact";
import { Markdown, type MarkdownContext } from "../../src/markdown/index.ts";
import "../../src/ui/app/shell.css";
import { offer } from "./measure.ts";

const context: MarkdownContext = {
  conversation: "chat-bench",
  resolveSource: () => undefined,
  onCite: () => undefined,
  onOpenPath: () => undefined,
};
const root = document.getElementById("page") as HTMLElement;

let answers: string[] = [];
let grows = false;

function draw(): void {
  render(
    <main class="thread end">
      <div class="roll">
        {answers.map((text, at) => (
          <div class="say" key={String(at)}>
            <Markdown text={text} growing={grows && at === answers.length - 1} context={context} />
          </div>
        ))}
      </div>
    </main>,
    root,
  );
}

draw();
offer({
  begin() {
    answers = [...answers, ""];
    grows = true;
  },
  push(piece) {
    answers = answers.with(-1, `${answers.at(-1)}${piece}`);
  },
  end() {
    grows = false;
  },
  draw,
  drawsAtOnce: true,
});
