/** Measures a page that shows a growing answer. The same code runs in our page and in others (`bench/page_peers`). */

/** A way to show a growing answer. */
export interface Subject {
  /** Show a prompt, and an empty answer under it. */
  begin(prompt: string): void;
  /** Receive a piece from the network. */
  push(piece: string): void;
  /** Render all received text now. */
  draw(): void;
  /** A received piece is rendered at once, not with the next frame. */
  readonly drawsAtOnce: boolean;
  /** The answer is complete. */
  end(): void;
}

/** The functions that the browser's driver calls. */
export interface Bench {
  /** Milliseconds from navigation until the page had been painted, null until then. */
  shownMs: number | null;
  begin(prompt: string): Promise<void>;
  end(): Promise<void>;
  /** Render every piece separately, as fast as possible; if it takes too long, return how many were rendered. */
  eachPiece(pieces: readonly string[], limitS: number): Promise<number>;
  /** Give every frame the text received by then. */
  eachFrame(pieces: readonly string[], charactersPerS: number): Promise<void>;
  /** Milliseconds from a piece's arrival until the frame with it was handed over. */
  firstDelta(piece: string): Promise<number>;
  /** Turns with complete answers, one after the other. */
  turns(texts: readonly string[]): Promise<void>;
}

declare global {
  interface Window {
    bench: Bench;
  }
}

/** Wait for one task: promises, and work that frameworks have scheduled. */
function task(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

function frame(): Promise<number> {
  return new Promise((resolve) => requestAnimationFrame(resolve));
}

/** Resolve when the next frame was handed over: one task after its animation frame. */
async function painted(): Promise<void> {
  await frame();
  await task();
}

/** Offer a subject to the driver after its first render. */
export function offer(subject: Subject): void {
  const bench: Bench = {
    shownMs: null,
    async begin(prompt) {
      subject.begin(prompt);
      subject.draw();
      await painted();
    },
    async end() {
      subject.end();
      subject.draw();
      await painted();
    },
    async eachPiece(pieces, limitS) {
      const untilMs = performance.now() + limitS * 1000;
      let drawn = 0;
      for (const piece of pieces) {
        if (performance.now() > untilMs) break;
        subject.push(piece);
        subject.draw();
        await task();
        drawn += 1;
      }
      await painted();
      return drawn;
    },
    async eachFrame(pieces, charactersPerS) {
      const start = await frame();
      let [at, sent] = [0, 0];
      for (let now = start; at < pieces.length; now = await frame()) {
        const due = ((now - start) / 1000) * charactersPerS;
        for (let piece = pieces[at]; piece !== undefined && sent < due; piece = pieces[at]) {
          subject.push(piece);
          sent += piece.length;
          at += 1;
        }
        subject.draw();
      }
      await painted();
    },
    async firstDelta(piece) {
      // At any moment between two frames, as with a socket.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 32));
      const came = performance.now();
      subject.push(piece);
      if (subject.drawsAtOnce) subject.draw();
      do await painted();
      while (!document.body.textContent?.includes(piece));
      return performance.now() - came;
    },
    async turns(texts) {
      for (const text of texts) {
        subject.begin("And now?");
        subject.push(text);
        subject.draw();
        await task();
        subject.end();
        subject.draw();
        await painted();
      }
    },
  };
  window.bench = bench;
  void painted().then(() => {
    bench.shownMs = performance.now();
  });
}
