/** Programs of calls: written on lanes or told by events, run, and ended with their output. */

import type { ClientEvent } from "../client/index.ts";
import { changeCall } from "./calls.ts";
import { numberOrNull, objectOf, rowsOf, textOf, timeOf, timeOrNull } from "./fields.ts";
import type { Program, Turn } from "./thread.ts";

/** The most of a running program's output that is kept. */
export const LOG_CHARS = 65_536;

export const EMPTY_PROGRAM: Program = {
  name: "",
  objective: "",
  code: { text: "", whole: false, aborted: "" },
  language: "",
  contract: [],
  state: "writing",
  startedAt: null,
  deadline: null,
  codegenMs: null,
  execMs: null,
  errorCode: "",
  log: { base: 0, text: "", whole: false, bytes: null },
};

/** Change the program of the call that an event is about. */
export function changeProgram(turn: Turn, callId: string, change: (program: Program) => Program): Turn {
  return changeCall(turn, callId, (call) => ({ ...call, program: change(call.program ?? EMPTY_PROGRAM) }));
}

function changing(change: (program: Program, event: ClientEvent) => Program) {
  return (turn: Turn, event: ClientEvent): Turn =>
    changeProgram(turn, textOf(event.data, "execution_id"), (program) => change(program, event));
}

export const programNamed = changing((program, { data }) => ({ ...program, name: textOf(data, "text") }));

export const programMeant = changing((program, { data }) => ({ ...program, objective: textOf(data, "text") }));

export const programWritten = changing((program, { data }) => ({
  ...program,
  code: { text: textOf(data, "text"), whole: true, aborted: "" },
  language: textOf(data, "language"),
}));

export const programPromised = changing((program, { data }) => ({ ...program, contract: promises(data) }));

/** The recorded end of the output replaces what was seen of it while it ran. */
export const programPrinted = changing((program, { data }) => ({
  ...program,
  log: { base: 0, text: textOf(data, "text"), whole: true, bytes: numberOrNull(data, "log_bytes") },
}));

export const programStands = changing((program, event) => {
  const { data } = event;
  const timings = objectOf(data, "timings");
  switch (textOf(data, "status")) {
    case "gen":
      return { ...program, state: "ready", codegenMs: numberOrNull(timings, "codegen") };
    case "exec":
      return {
        ...program,
        state: "running",
        startedAt: timeOf(event.ts),
        deadline: timeOrNull(textOf(data, "deadline")),
      };
    case "done":
    case "error":
      return {
        ...program,
        state: textOf(data, "status") === "done" ? "done" : "error",
        execMs: numberOrNull(timings, "exec"),
        errorCode: textOf(objectOf(data, "error"), "code"),
        log: { ...program.log, whole: true },
      };
    default:
      return program;
  }
});

export function promises(data: Readonly<Record<string, unknown>>): Program["contract"] {
  return rowsOf(data, "contract").map((file) => ({
    filename: textOf(file, "filename"),
    description: textOf(file, "description"),
    internal: textOf(file, "visibility") === "internal",
  }));
}

/** Return the program of a turn that ended while it was not over. */
export function brokenOff(program: Program): Program {
  const ran = program.state === "running" || program.state === "ready";
  return ran ? { ...program, state: "error", log: { ...program.log, whole: true } } : program;
}
