/** A clock that is moved by hand, and a server without a network. */

import type { Clock, Connection, Dial, DialHandlers } from "../../src/client/index.ts";

export class TestClock implements Clock {
  #nowMs: number;
  #timers: { dueMs: number; run: () => void }[] = [];

  constructor(nowMs = 1_795_256_000_000) {
    this.#nowMs = nowMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { dueMs: this.#nowMs + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** The number of timers. */
  get timers(): number {
    return this.#timers.length;
  }

  /** Run the next timer that is due by `untilMs`, at its time; return false if there is none. */
  runNext(untilMs: number): boolean {
    const [next] = [...this.#timers].sort((a, b) => a.dueMs - b.dueMs);
    if (!next || next.dueMs > untilMs) return false;
    this.#timers = this.#timers.filter((other) => other !== next);
    this.#nowMs = Math.max(this.#nowMs, next.dueMs);
    next.run();
    return true;
  }

  /** Let the machine sleep: time passes, and timers do not fire. */
  sleep(ms: number): void {
    this.#nowMs += ms;
  }
}

export interface Wire {
  readonly handlers: DialHandlers;
  readonly sent: Record<string, unknown>[];
  isOpen: boolean;
  isClosed: boolean;
}

/** Records dials and requests. Dials wait for `settle`, as those of a browser do. */
export class FarEnd implements Dial {
  readonly wires: Wire[] = [];
  /** The number of next dials that fail. */
  refuses = 0;
  readonly #note: (kind: "dialled" | "sent", request?: Record<string, unknown>) => void;
  #opening: Wire[] = [];

  constructor(note: (kind: "dialled" | "sent", request?: Record<string, unknown>) => void = () => undefined) {
    this.#note = note;
  }

  open(handlers: DialHandlers): Connection {
    const wire: Wire = { handlers, sent: [], isOpen: false, isClosed: false };
    this.#note("dialled");
    this.wires.push(wire);
    this.#opening.push(wire);
    return {
      send: (text) => {
        const request = JSON.parse(text);
        wire.sent.push(request);
        this.#note("sent", request);
      },
      close: () => {
        wire.isClosed = true;
      },
    };
  }

  get last(): Wire {
    const wire = this.wires.at(-1);
    if (!wire) throw new Error("nothing was dialled");
    return wire;
  }

  /** The connection that was opened last. */
  get current(): Wire {
    const wire = this.wires.findLast((one) => one.isOpen);
    if (!wire) throw new Error("nothing is open");
    return wire;
  }

  /** Let every dial complete. */
  settle(): void {
    const opening = this.#opening;
    this.#opening = [];
    for (const wire of opening) {
      if (wire.isClosed) continue;
      if (this.refuses > 0) {
        this.refuses -= 1;
        wire.handlers.failed({ code: "socket_unreachable", message: "not now" });
      } else {
        wire.isOpen = true;
        wire.handlers.open();
      }
    }
  }

  /** Send a frame to the client. */
  say(frame: object): void {
    this.current.handlers.message(JSON.stringify(frame));
  }

  cut(): void {
    const wire = this.current;
    wire.isOpen = false;
    wire.handlers.closed(1006, "");
  }
}
