/**
 * A bundle's own page next to the chat. It has no origin and no network. It sends its calls over one port, and the chat
 * page makes them with the user's own rights. No token crosses, and no call that is not on the list.
 *
 * The protocol: docs/how-to/bundle-dashboard.md.
 */

import { Component, createRef, type VNode } from "preact";
import { ApiError } from "../api/index.ts";
import { ApiTransport } from "../api/transport.ts";
import { visible } from "../markdown/index.ts";
import { say } from "../words/en/preview.ts";
import { findAllowed } from "./bundle_calls.ts";
import "./preview.css";

interface Props {
  /** The name of the bundle, as in the address `/ui/<bundle>/`. */
  readonly bundle: string;
  /** The HTTP API's address, and the user's token for one request. */
  readonly httpUrl: string;
  token(): Promise<string>;
}

/** A call by a bundle's page. */
interface Question {
  readonly id: number;
  readonly method: string;
  readonly path: string;
  readonly body: object | undefined;
}

interface Reply {
  readonly status: number;
  readonly body: unknown;
}

const NAME = /^[a-z][a-z0-9_-]{0,31}$/;
/** The maximum number of concurrent calls; further ones are refused. */
const OPEN_MAX = 8;

class Forwarder extends ApiTransport {
  async forward({ method, path, body }: Question): Promise<Reply> {
    const allowed = findAllowed(method, path);
    if (!allowed) return refuse(403, "not_allowed");
    const values = body === undefined ? {} : { body };
    try {
      if (!allowed.empty) return { status: 200, body: await this.ask<unknown>(method, path, values) };
      await this.tell(method, path, values);
      return { status: 204, body: null };
    } catch (error) {
      if (error instanceof ApiError) return { status: error.status, body: { code: error.code, detail: error.detail } };
      return refuse(0, "session_expired");
    }
  }
}

function refuse(status: number, code: string): Reply {
  return { status, body: { code, detail: "" } };
}

function readQuestion(value: unknown): Question | null {
  if (typeof value !== "object" || value === null) return null;
  const { id, method, path, body } = value as Record<string, unknown>;
  if (!Number.isSafeInteger(id) || typeof method !== "string" || typeof path !== "string") return null;
  if (body !== undefined && (typeof body !== "object" || body === null)) return null;
  return { id: id as number, method, path, body: body ?? undefined };
}

export class BundleFrame extends Component<Props> {
  readonly #frame = createRef<HTMLIFrameElement>();
  #port: MessagePort | null = null;
  #open = 0;

  override shouldComponentUpdate(next: Readonly<Props>): boolean {
    if (next.bundle === this.props.bundle) return false;
    this.#port?.close();
    this.#port = null;
    return true;
  }

  override componentWillUnmount(): void {
    this.#port?.close();
  }

  /** Give the page in the frame a port, once. A page that it navigates to gets none. */
  #connect = (): void => {
    if (this.#port) {
      this.#port.close();
      return;
    }
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.onmessage = ({ data }) => void this.#answer(port1, data);
    this.#frame.current?.contentWindow?.postMessage({ stepline: 1 }, "*", [port2]);
  };

  async #answer(port: MessagePort, value: unknown): Promise<void> {
    const question = readQuestion(value);
    if (!question) return;
    if (this.#open >= OPEN_MAX) return port.postMessage({ id: question.id, ...refuse(429, "too_many_calls") });
    this.#open += 1;
    const reply = await new Forwarder(this.props.httpUrl, () => this.props.token()).forward(question);
    this.#open -= 1;
    port.postMessage({ id: question.id, ...reply });
  }

  override render({ bundle }: Readonly<Props>): VNode | null {
    if (!NAME.test(bundle)) return null;
    return (
      <iframe
        key={bundle}
        ref={this.#frame}
        class="bundle-frame"
        src={`/ui/${bundle}/index.html`}
        sandbox="allow-scripts"
        referrerpolicy="no-referrer"
        title={say.bundle(visible(bundle))}
        onLoad={this.#connect}
      />
    );
  }
}
