/**
 * Code with numbered lines: plain while it grows, highlighted once it is complete.
 *
 * The colors come from highlight.js's tokens, in a separate chunk that the first highlighted block loads. Above 100 KB
 * there is no highlighting, and above 400 KB no lines either: the block is then a single text.
 */

import { Component, type VNode } from "preact";
import { say } from "../words/en/markdown.ts";
import type { PaintedLine } from "./highlight.ts";
import { visible, visibleOrder } from "./visible.ts";

const COLOR_MAX_CHARS = 100_000;
const LINES_MAX_CHARS = 400_000;
const LANGUAGE_CHARS = 24;
const COPIED_MS = 2_000;

interface Props {
  readonly code: string;
  /** The name that the author gave, "" for none. */
  readonly language: string;
  /** The text is complete. */
  readonly whole: boolean;
}

interface State {
  readonly painted: { readonly code: string; readonly language: string; readonly lines: readonly PaintedLine[] } | null;
  readonly copied: "" | "copied" | "failed";
}

export class CodeBlock extends Component<Props, State> {
  override state: State = { painted: null, copied: "" };
  /** Lines of the previous render, which keep their nodes while more arrive. */
  #lines: VNode[] = [];
  #drawn = "";
  #gone = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  override componentDidMount(): void {
    void this.#paint();
  }

  override componentDidUpdate(): void {
    void this.#paint();
  }

  override componentWillUnmount(): void {
    this.#gone = true;
    clearTimeout(this.#timer);
  }

  override shouldComponentUpdate(next: Props, state: State): boolean {
    const { code, language, whole } = this.props;
    return code !== next.code || language !== next.language || whole !== next.whole || state !== this.state;
  }

  async #paint(): Promise<void> {
    const { code, language, whole } = this.props;
    if (!whole || language === "" || code.length > COLOR_MAX_CHARS || this.#isPainted()) return;
    const { paint } = await import("./highlight.ts");
    if (this.#gone || this.props.code !== code || this.props.language !== language || this.#isPainted()) return;
    const lines = paint(visibleOrder(code), language);
    if (lines) this.setState({ painted: { code, language, lines } });
  }

  #isPainted(): boolean {
    const { painted } = this.state;
    return painted !== null && painted.code === this.props.code && painted.language === this.props.language;
  }

  #copy = async (): Promise<void> => {
    let copied: State["copied"] = "copied";
    try {
      await navigator.clipboard.writeText(this.props.code);
    } catch {
      copied = "failed"; // the browser's settings forbid it
    }
    this.setState({ copied });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.setState({ copied: "" }), COPIED_MS);
  };

  #drawPlain(): VNode[] | string {
    const code = visibleOrder(this.props.code);
    if (code.length > LINES_MAX_CHARS) return code;
    const from = code.startsWith(this.#drawn) ? Math.max(this.#lines.length - 1, 0) : 0;
    const lines = code.split("\n");
    // The previous last line may have grown.
    this.#lines = [
      ...this.#lines.slice(0, from),
      ...lines.slice(from).map((line, at) => <span data-line={from + at + 1}>{line || " "}</span>),
    ];
    this.#drawn = code;
    return this.#lines;
  }

  override render({ language }: Props, { painted, copied }: State): VNode {
    const lines = this.#isPainted() && painted ? painted.lines.map(drawLine) : this.#drawPlain();
    const isText = typeof lines === "string";
    const words = { "": say.copy, copied: say.copied, failed: say.copyFailed };
    return (
      <div class="code">
        {language && (
          <p class="language">
            <bdi>{visible(language, LANGUAGE_CHARS)}</bdi>
          </p>
        )}
        <button type="button" class="copy" onClick={this.#copy} aria-live="polite">
          {words[copied]}
        </button>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard */}
        <section class="lines" aria-label={say.code(language)} tabIndex={0}>
          <pre class={isText ? "source unlined" : "source"} dir="ltr">
            {lines}
          </pre>
        </section>
      </div>
    );
  }
}

function drawLine(line: PaintedLine, at: number): VNode {
  return (
    <span data-line={at + 1}>
      {line.length === 0
        ? " "
        : line.map(({ text, tone }) => {
            if (tone === "word") return <i>{text}</i>;
            if (tone === "value") return <b>{text}</b>;
            if (tone === "aside") return <u>{text}</u>;
            return text;
          })}
    </span>
  );
}
