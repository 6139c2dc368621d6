/** One response of server-sent events. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html */

import type { ServerResponse } from "node:http";

const HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  // Proxies hold nothing back and compress nothing.
  "Cache-Control": "no-cache, no-transform",
  "X-Accel-Buffering": "no",
  Connection: "close",
};

export class EventStream {
  readonly #response: ServerResponse;
  /** Aborts when the client has left or the server ends: nothing more is read for this stream. */
  readonly left: AbortSignal;

  constructor(response: ServerResponse, left: AbortSignal, headers: Readonly<Record<string, string>> = {}) {
    this.#response = response;
    this.left = left;
    response.writeHead(200, { ...HEADERS, ...headers });
    response.flushHeaders();
  }

  /** Send a value as JSON, under the name of its event if the protocol names them. The promise ends when a slow client has read enough for the next one, or has left. */
  send(value: unknown, name = ""): Promise<void> | undefined {
    return this.#write(`${name && `event: ${name}\n`}data: ${JSON.stringify(value)}\n\n`);
  }

  /** Send a comment, which keeps a silent connection open. A slow client has enough to read. */
  beat(): void {
    if (!this.#response.writableNeedDrain) this.#write(":\n\n");
  }

  /** End the response. `last` marks its end in the protocol; a server that ends leaves it out. */
  end(last = ""): void {
    this.#response.end(this.left.aborted || !last ? undefined : `data: ${last}\n\n`);
  }

  #write(text: string): Promise<void> | undefined {
    const response = this.#response;
    if (this.left.aborted || response.write(text)) return;
    return new Promise((resolve) => {
      const go = () => {
        response.off("drain", go);
        this.left.removeEventListener("abort", go);
        resolve();
      };
      response.once("drain", go);
      this.left.addEventListener("abort", go, { once: true });
    });
  }
}
