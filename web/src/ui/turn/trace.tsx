/** The 96 px trace of a round: when the model wrote, when a tool ran, and what runs now, on the scale of the turn. */

import { type Segment, traceOf } from "../../thread/select.ts";
import type { Round } from "../../thread/thread.ts";
import { useNow } from "./desk.ts";

const width = 96;

export interface Bar {
  readonly is: Segment["is"];
  readonly x: number;
  readonly width: number;
}

/** The bars of a round's segments. One that is too short to see is two pixels wide, within the frame. */
export function traceBars(segments: readonly Segment[], scaleMs: number): readonly Bar[] {
  const place = (ms: number) => Math.min((ms / scaleMs) * width, width);
  return segments.map(({ is, from, to }) => {
    const long = Math.max(place(to) - place(from), 2);
    return { is, x: Math.min(place(from), width - long), width: long };
  });
}

const tenth = (n: number): number => Math.round(n * 10) / 10;
const colors = { model: "model", tool: "run", now: "now" } as const;

export function Trace(props: { round: Round; turnStartedAt: number; scaleMs: number; runs: boolean }) {
  const now = useNow(props.runs);
  const segments = traceOf({ startedAt: props.turnStartedAt }, props.round, now);
  return (
    <svg class="trace" viewBox={`0 0 ${width} 10`} preserveAspectRatio="none" aria-hidden="true">
      <rect class="way" x="0" y="4.5" width={width} height="1" />
      {traceBars(segments, props.scaleMs).map((bar, at) => (
        <rect
          key={at}
          class={colors[bar.is]}
          x={tenth(bar.x)}
          y={bar.is === "model" ? 4 : 1}
          width={tenth(bar.width)}
          height={bar.is === "model" ? 2 : 8}
          rx={bar.is === "model" ? 0 : 1}
        />
      ))}
    </svg>
  );
}
