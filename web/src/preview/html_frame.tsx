/**
 * A stranger's HTML document, without scripts and without the network.
 *
 * The page frames `/frame.html`, a document of its own policy and of no origin. It takes the text by a port and shows it in a frame
 * within itself that has no rights at all. Nothing comes back.
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
    // No target can be named: the frame has no origin. Whoever is in it gets a port on which a text comes, which is the frame's own.
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
