/** The readout of the title bar: what runs now, or what the conversation has come to. Pure. */

import type { Round, Thread, Turn } from "../../thread/thread.ts";
import { formatTokens } from "../../words/format.ts";
import { shell } from "../app/words.ts";

export interface Readout {
  readonly text: string;
  /** When the turn that runs began, epoch milliseconds; null if none runs. */
  readonly since: number | null;
}

/** Return the readout; `stopping` is true from the click on Stop, before the server has heard it. */
export function readoutOf(thread: Thread, stopping: boolean): Readout {
  const turn = thread.turns.at(-1);
  if (turn?.outcome.is !== "running") return { text: idleText(thread), since: null };
  return { text: runningText(turn, stopping), since: turn.startedAt };
}

function idleText(thread: Thread): string {
  if (thread.turns.length === 0) return "";
  const weighted = thread.turns.reduce((sum, turn) => sum + (turn.receipt?.weightedTokens ?? 0), 0);
  return shell.readout.idle(thread.turns.length, weighted ? formatTokens(weighted) : "");
}

function runningText(turn: Turn, stopping: boolean): string {
  if (stopping || turn.ending === 0) return shell.readout.stopping;
  if (turn.ending !== null) return shell.readout.ending(turn.ending);
  const round = turn.rounds.at(-1);
  if (!round) return shell.readout.starting;
  return shell.readout.round(round.iteration + 1, turn.approval ? shell.readout.approval : activity(turn, round));
}

function activity(turn: Turn, round: Round): string {
  const running = round.calls.findLast((call) => call.state === "running");
  if (running) return running.program ? shell.readout.program : running.toolId;
  const answer = turn.answers.at(-1);
  if (answer?.state === "streaming" && answer.iteration === round.iteration) return shell.readout.answering;
  const written = round.calls.findLast((call) => call.program?.state === "writing")?.program;
  if (written) return written.name ? shell.readout.writing(written.name) : shell.readout.program;
  const draft = round.drafts.findLast((one) => !one.text.whole);
  if (draft?.name) return shell.readout.writing(draft.name);
  return round.state === "thinking" ? shell.readout.thinking : shell.readout.deciding;
}
