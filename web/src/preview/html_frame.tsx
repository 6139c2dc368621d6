/**
 * An untrusted HTML document, without scripts and without the network.
 *
 * The page frames `/frame.html`, a document with its own policy and no origin. It receives the text over a port and
 * shows it in an inner frame without any rights. Nothing is sent back.
 */

import { Component, createRef, type VNode } from "preact";
import { say } from "../words/en/preview.ts";

interface Props {
  readonly text: string;
}

export class HtmlFrame extends Component<Props> {
  readonly #frame = createRef<HTMLIFrameElement>();
  #port: MessagePort | null = null;

  override shouldComponentUpdate(next: Readonly<Props>): boolean {
    if (next.text !== this.props.text) this.#port?.postMessage(next.text);
    return false;
  }

  override componentWillUnmount(): void {
    this.#port?.close();
  }

  #connect = (): void => {
    const { port1, port2 } = new MessageChannel();
    this.#port?.close();
    this.#port = port1;
    // The message cannot name a target origin, because the frame has none. Whichever document is in the frame receives
    // only a port with the frame's own text.
    this.#frame.current?.contentWindow?.postMessage("", "*", [port2]);
    port1.postMessage(this.props.text);
  };

  override render(): VNode {
    return (
      <iframe
        ref={this.#frame}
        class="html-frame"
        src="/frame.html"
        sandbox="allow-scripts"
        referrerpolicy="no-referrer"
        title={say.html}
        onLoad={this.#connect}
      />
    );
  }
}
