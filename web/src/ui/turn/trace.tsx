/** The 96 px of a round: where the model wrote, where a tool ran, and where it is now, to the scale of the turn. */

import type { Call, Round } from "../../thread/thread";
import { useNow } from "./desk";

const width = 96;
export interface Bar {
  readonly is: "model" | "run" | "now";
  readonly x: number;
  readonly width: number;
}

interface Span {
  readonly is: Bar["is"];
  readonly from: number;
  readonly to: number;
}

function callSpan(call: Call, now: number): Span | null {
  if (call.startedAt === null || call.state === "waiting" || call.state === "written") return null;
  if (call.state === "running") return { is: "now", from: call.startedAt, to: now };
  return { is: "run", from: call.startedAt, to: call.startedAt + (call.durationMs ?? 0) };
}

/** The bars of a round, from times and durations alone. `now` counts only while something of the round runs. */
export function traceBars(round: Round, turnStartedAt: number, scaleMs: number, now: number): readonly Bar[] {
  const asked = round.decidedAt ?? (round.state === "done" ? (round.endedAt ?? round.startedAt) : now);
  const spans: (Span | null)[] = [
    { is: round.decidedAt === null && round.state !== "done" ? "now" : "model", from: round.startedAt, to: asked },
    ...round.calls.map((call) => callSpan(call, now)),
  ];
  const place = (ms: number) => Math.min(Math.max(((ms - turnStartedAt) / scaleMs) * width, 0), width);
  return spans
    .filter((span) => span !== null)
    .map(({ is, from, to }) => {
      // A bar that is too short to see is drawn two pixels wide, within the frame.
      const long = Math.max(place(to) - place(from), 2);
      return { is, x: Math.min(place(from), width - long), width: long };
    });
}

const tenth = (n: number): number => Math.round(n * 10) / 10;

export function Trace(props: { round: Round; turnStartedAt: number; scaleMs: number; runs: boolean }) {
  const now = useNow(props.runs);
  return (
    <svg class="trace" viewBox={`0 0 ${width} 10`} preserveAspectRatio="none" aria-hidden="true">
      <rect class="way" x="0" y="4.5" width={width} height="1" />
      {traceBars(props.round, props.turnStartedAt, props.scaleMs, now).map((bar, at) => (
        <rect
          key={at}
          class={bar.is}
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
