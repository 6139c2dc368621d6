/** The small state marks, each with its word, and icons, which have none. */

import type { CallState, Plan } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";

type Shape = "done" | "failed" | "running" | "half" | "empty" | "doubt" | "skipped" | "hand";

const paths: Readonly<Record<Shape, preact.ComponentChildren>> = {
  done: <path d="m3.5 8.5 3 3 6-7" />,
  failed: <path d="m4.5 4.5 7 7m0-7-7 7" />,
  running: (
    <>
      <circle cx="8" cy="8" r="5.25" opacity=".3" />
      <path d="M8 2.75a5.25 5.25 0 0 1 5.25 5.25" />
    </>
  ),
  half: (
    <>
      <circle cx="8" cy="8" r="5.25" />
      <path d="M8 4.5a3.5 3.5 0 0 1 0 7z" fill="currentColor" stroke="none" />
    </>
  ),
  empty: <circle cx="8" cy="8" r="5.25" />,
  doubt: (
    <>
      <path d="M8 2.5 14 13H2z" />
      <path d="M8 6.5v3M8 11.25v.01" />
    </>
  ),
  skipped: (
    <>
      <circle cx="8" cy="8" r="5.25" />
      <path d="m4.5 11.5 7-7" />
    </>
  ),
  hand: (
    <>
      <circle cx="8" cy="8" r="5.25" />
      <path d="M8 5v3.25l2 1.25" />
    </>
  ),
};

/** A state's mark; `word` is its text for screen readers. */
export function Mark({
  shape,
  tone = "",
  word,
}: {
  shape: Shape;
  tone?: "" | "ok" | "live" | "bad" | "ask";
  word: string;
}) {
  return (
    <svg
      class={`mark ${tone}`}
      viewBox="0 0 16 16"
      role="img"
      aria-label={word}
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linecap="round"
      stroke-linejoin="round"
    >
      {paths[shape]}
    </svg>
  );
}

const callShapes: Readonly<Record<CallState, [Shape, "" | "ok" | "live" | "bad" | "ask"]>> = {
  written: ["empty", ""],
  waiting: ["hand", "ask"],
  running: ["running", "live"],
  ok: ["done", "ok"],
  error: ["failed", "bad"],
  unverified: ["doubt", "live"],
  skipped: ["skipped", ""],
};

export function CallMark({ state }: { state: CallState }) {
  const [shape, tone] = callShapes[state];
  return <Mark shape={shape} tone={tone} word={say.state[state]} />;
}

type StepStatus = Plan["steps"][number]["status"];

export function StepMark({ status, now }: { status: StepStatus; now: boolean }) {
  const word = say.step[status];
  if (status === "done") return <Mark shape="done" tone="ok" word={word} />;
  if (status === "failed") return <Mark shape="failed" tone="bad" word={word} />;
  if (status === "in_progress") return <Mark shape="half" tone={now ? "live" : ""} word={word} />;
  return <Mark shape="empty" word={word} />;
}

const icons = {
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  chevron: "m6 4 4 4-4 4",
  up: "M5.5 13.5h5.8l1.5-6H9l.5-3.5-1-.8-3 4.3zM3 7.5v6",
  down: "M10.5 2.5H4.7l-1.5 6H7l-.5 3.5 1 .8 3-4.3zM13 8.5v-6",
  copy: "M5.5 5.5H13V13H5.5zM3 10.5V3.5a.5.5 0 0 1 .5-.5h7",
  clock: "M8 2.75a5.25 5.25 0 1 1 0 10.5 5.25 5.25 0 0 1 0-10.5M8 5v3.25l2 1.25",
  clip: "m12.5 7.5-4.6 4.6a2.6 2.6 0 0 1-3.7-3.7l5-5a1.8 1.8 0 0 1 2.5 2.5l-5 5a.9.9 0 0 1-1.2-1.3l4.2-4.2",
  close: "m4.5 4.5 7 7m0-7-7 7",
  end: "M8 3v9m-4-4 4 4 4-4",
} as const;

export function Icon({ of }: { of: keyof typeof icons }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={icons[of]} />
    </svg>
  );
}
