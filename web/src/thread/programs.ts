/** Programs of calls: written on lanes or reported by events, run, and ended with their output. */

import type { ClientEvent } from "../client/index.ts";
import { changeCall } from "./calls.ts";
import { numberOrNull, objectOf, rowsOf, textOf, timeOf, timeOrNull } from "./fields.ts";
import { changed } from "./share.ts";
import type { Lane, Program, Turn } from "./thread.ts";

/** The maximum length of a running program's output that is kept. */
export const LOG_CHARS = 65_536;

export const EMPTY_PROGRAM: Program = {
  name: "",
  objective: "",
  code: { text: "", whole: false, aborted: "" },
  language: "",
  contract: [],
  state: "writing",
  startedAt: null,
  ranAt: null,
  endedAt: null,
  deadline: null,
  codegenMs: null,
  startMs: null,
  execMs: null,
  collectMs: null,
  errorCode: "",
  log: { base: 0, text: "", whole: false, bytes: null },
};

/** Change the program of an event's call. */
export function changeProgram(turn: Turn, callId: string, change: (program: Program) => Program): Turn {
  return changeCall(turn, callId, (call) => ({ ...call, program: change(call.program ?? EMPTY_PROGRAM) }));
}

function changing(change: (program: Program, event: ClientEvent) => Program) {
  return (turn: Turn, event: ClientEvent): Turn =>
    changeProgram(turn, textOf(event.data, "execution_id"), (program) => change(program, event));
}

export const programNamed = changing((program, { data }) => ({ ...program, name: textOf(data, "text") }));

export const programDescribed = changing((program, { data }) => ({ ...program, objective: textOf(data, "text") }));

export const programWritten = changing((program, { data }) => ({
  ...program,
  code: { text: textOf(data, "text"), whole: true, aborted: "" },
  language: textOf(data, "language"),
}));

export const programPromised = changing((program, { data }) => ({ ...program, contract: promises(data) }));

/** The recorded end of the output replaces the output that streamed. */
export const programPrinted = changing((program, { data }) => ({
  ...program,
  log: { base: 0, text: textOf(data, "text"), whole: true, bytes: numberOrNull(data, "log_bytes") },
}));

/** A run ends with its call; it began when its program was launched. */
export function programStatusChanged(turn: Turn, event: ClientEvent): Turn {
  const settled = programStatus(turn, event);
  const callId = textOf(event.data, "execution_id");
  return changeCall(settled, callId, (call) => {
    const { startMs, execMs, collectMs, state } = call.program ?? EMPTY_PROGRAM;
    if (startMs === null || collectMs === null || (state !== "done" && state !== "error")) return call;
    const durationMs = startMs + (execMs ?? 0) + collectMs;
    return changed(call, { durationMs, startedAt: call.startedAt === null ? null : timeOf(event.ts) - durationMs });
  });
}

const programStatus = changing((program, event) => {
  const { data } = event;
  const timings = objectOf(data, "timings");
  switch (textOf(data, "status")) {
    case "gen":
      return { ...program, state: "ready", codegenMs: numberOrNull(timings, "codegen") };
    case "exec":
      return {
        ...program,
        state: "starting",
        startedAt: timeOf(event.ts),
        deadline: timeOrNull(textOf(data, "deadline")),
      };
    case "done":
    case "error":
      return {
        ...program,
        state: textOf(data, "status") === "done" ? "done" : "error",
        ranAt: null,
        endedAt: null,
        startMs: numberOrNull(timings, "start"),
        execMs: numberOrNull(timings, "exec"),
        collectMs: numberOrNull(timings, "collect"),
        errorCode: textOf(objectOf(data, "error"), "code"),
        log: { ...program.log, whole: true },
      };
    default:
      return program;
  }
});

/** Return the program as its log lane shows it: it runs once the lane exists, and has run when the lane has ended. */
export function withLog(program: Program, lane: Lane): Program {
  if (program.state === "done" || program.state === "error") return program;
  const shown = changed(program, { log: changed(program.log, { base: lane.base, text: lane.text }) });
  if (program.startedAt === null) return shown;
  return changed(shown, {
    state: lane.whole ? "collecting" : "running",
    ranAt: timeOrNull(lane.facts?.began_at ?? "") ?? program.startedAt,
    endedAt: timeOrNull(lane.endedAt),
  });
}

export function promises(data: Readonly<Record<string, unknown>>): Program["contract"] {
  return rowsOf(data, "contract").map((file) => ({
    filename: textOf(file, "filename"),
    description: textOf(file, "description"),
    internal: textOf(file, "visibility") === "internal",
  }));
}

/** Return the unfinished program of a turn that has ended. */
export function brokenOff(program: Program): Program {
  const isOver = program.state === "writing" || program.state === "done" || program.state === "error";
  return !isOver ? { ...program, state: "error", log: { ...program.log, whole: true } } : program;
}
