/** Measuring of a page that shows a growing answer: the same code before ours and before others (`bench/page_peers`). */

/** One way to show an answer that grows. */
export interface Subject {
  /** Show a prompt, and an empty answer under it. */
  begin(prompt: string): void;
  /** A piece has come by the wire. */
  push(piece: string): void;
  /** Draw now what has come. */
  draw(): void;
  /** A piece that has just come is drawn at once, and not by the next picture. */
  readonly drawsAtOnce: boolean;
  /** The answer is whole. */
  end(): void;
}

/** What the driver of the browser calls. */
export interface Bench {
  /** Milliseconds since navigation when the page had been painted, null until then. */
  shownMs: number | null;
  begin(prompt: string): Promise<void>;
  end(): Promise<void>;
  /** Draw every piece by itself, as fast as it goes; return how many were drawn by then, if it takes too long. */
  eachPiece(pieces: readonly string[], limitS: number): Promise<number>;
  /** Give every picture what has come by then. */
  eachFrame(pieces: readonly string[], charactersPerS: number): Promise<void>;
  /** Milliseconds from a piece's arrival until a picture with it was handed over. */
  firstDelta(piece: string): Promise<number>;
  /** Turns with whole answers, one after the other. */
  turns(texts: readonly string[]): Promise<void>;
}

declare global {
  interface Window {
    bench: Bench;
  }
}

/** Let a task of its own go by: promises, and what frameworks have planned. */
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

/** The next picture was handed over: a task behind its frame. */
async function painted(): Promise<void> {
  await frame();
  await task();
}

/** Offer a subject to the driver, once it has been drawn for the first time. */
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
      // At any moment between two pictures, as a socket does it.
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
