/** A formula. Its source is shown until the formula renderer has loaded, and if the formula is invalid. */

import { Component, type VNode } from "preact";
import { say } from "../words/en/markdown.ts";
import { visibleOrder } from "./visible.ts";

interface Props {
  readonly raw: string;
  readonly tex: string;
  readonly display: boolean;
}

const load = () => import("./mathml.ts");
let mathml: Awaited<ReturnType<typeof load>> | null = null;

export class Formula extends Component<Props> {
  #gone = false;

  override componentDidMount(): void {
    void this.#load();
  }

  override componentWillUnmount(): void {
    this.#gone = true;
  }

  override shouldComponentUpdate(next: Props): boolean {
    return next.tex !== this.props.tex || next.display !== this.props.display;
  }

  /** If the renderer cannot load, the source stays. */
  async #load(): Promise<void> {
    if (mathml) return;
    try {
      mathml = await load();
    } catch {
      return;
    }
    if (!this.#gone) this.forceUpdate();
  }

  override render({ raw, tex, display }: Props): VNode {
    if (!mathml) return <span>{raw}</span>;
    const math = mathml.readMath(tex, display);
    if (math === null) return <code dir="ltr">{visibleOrder(raw.trim())}</code>;
    if (!display) return <span class="formula">{math}</span>;
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard
      <section class="formula wide" aria-label={say.formula} tabIndex={0}>
        {math}
      </section>
    );
  }
}
