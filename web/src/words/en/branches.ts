/** The words of editing a message, running a turn again, branches and forks, in English. */

import { formatNumber } from "../format.ts";
import { counted } from "./shared.ts";

export const branchWords = {
  // At a message
  edit: "Edit this message",
  editing: "Edit message",
  send: "Send",
  sending: "Sending…",
  cancel: "Cancel",
  tooLong: "This message is too long.",
  sameFiles: (files: number) => `Sent with its ${files === 1 ? "attachment" : counted(files, "attachment")}.`,
  again: "Run this turn again",

  // The switch
  branches: "Branches from here",
  of: (at: number, all: number) => `${formatNumber(at)} / ${formatNumber(all)}`,
  branchOf: (at: number, all: number) => `Branch ${formatNumber(at)} of ${formatNumber(all)}`,
  previous: "Previous branch",
  next: "Next branch",
  othersRun: "Another branch is running",

  // Before a branch
  doneTitle: "These were done and stay done",
  doneText: "A branch doesn't undo what these tools did.",
  doneMore: "… and more.",
  doneStatus: { ok: "done", error: "failed", running: "running", unverified: "may have happened" },
  goOn: "Go on",
  runsTitle: "The agent is still working",
  runsText: "Stop it, or let it run on in the branch that you leave?",
  runOn: "Let it run on",
  stop: "Stop it",
  busy: "Branching…",
  failed: "The branch was not made.",

  // Forks
  fork: "Fork from here",
  forkText: (turn: number) =>
    `A new conversation with everything up to the end of turn ${formatNumber(turn)}. Files are shared, nothing is copied.`,
  forkRoundText: (turn: number, round: number) =>
    `A new conversation with everything up to the end of round ${formatNumber(round)} of turn ${formatNumber(turn)}. Files are shared, nothing is copied.`,
  forkAct: "Fork",
  forking: "Forking…",
  forkFailed: "The fork was not made.",
  forkOf: "Fork of",
  forks: "Forks from this turn",
  origin: "another conversation",
  untitled: "Untitled",
} as const;
