/** Draws running text: each lane of the stream goes into the open round, into an answer, or into its program. */

import { changeCall, emptyCall } from "./calls.ts";
import { type Data, objectOf, textOf } from "./fields.ts";
import { EMPTY_PROGRAM, promises, withLog } from "./programs.ts";
import { changeLast, NOTHING, openRound, withItem } from "./rounds.ts";
import { changed, replaced, without } from "./share.ts";
import { laneKind, shown } from "./stream.ts";
import type { Answer, Draft, Growing, Lane, Program, Round, Stream, Turn } from "./thread.ts";

/** Draw every lane of the stream. Parts that are already drawn stay the same objects. */
export function drawStream(turn: Turn, stream: Stream): Turn {
  let drawn = turn;
  for (const lane of stream.lanes.values()) drawn = drawLane(drawn, stream, lane);
  return drawn;
}

/** Draw one lane whose text or facts are new. */
export function drawLane(turn: Turn, stream: Stream, lane: Lane): Turn {
  const kind = laneKind(lane.name);
  if (kind === "log") return drawLog(turn, lane);
  if (!openRound(turn) || kind === "") return turn;
  const open = changeLast(turn, (round) =>
    changed(round, { claim: stream.claim, state: kind === "thinking" ? round.state : "deciding" }),
  );
  switch (kind) {
    case "thinking":
      return changeLast(open, (round) => changed(round, { thinking: joined(round.thinking, stream, kind, "\n\n") }));
    case "notes":
      return changeLast(open, (round) => changed(round, { notes: joined(round.notes, stream, kind, "\n") }));
    case "answer":
      return drawAnswer(open, stream, lane);
    case "canvas":
    case "timeline":
      return changeLast(open, (round) => drawDraft(round, lane, kind === "canvas"));
    case "plan":
      return changeLast(open, (round) =>
        changed(round, { planDraft: joined(round.planDraft ?? NOTHING, stream, kind, "\n\n") }),
      );
    default:
      return changeLast(open, (round) => drawProgram(round, lane, kind));
  }
}

/** Return the text of all lanes of a kind that are not replaced. */
function joined(before: Growing, stream: Stream, kind: "thinking" | "notes" | "plan", gap: string): Growing {
  const lanes = shown(stream, kind);
  return changed(before, {
    text: lanes.map((lane) => lane.text).join(gap),
    whole: lanes.every((lane) => lane.whole),
    aborted: lanes.at(-1)?.aborted ?? "",
  });
}

function growing(before: Growing, lane: Lane): Growing {
  return changed(before, { text: lane.text, whole: lane.whole, aborted: lane.aborted });
}

function drawAnswer(turn: Turn, stream: Stream, lane: Lane): Turn {
  const at = turn.answers.findLastIndex((one) => one.state === "streaming" && one.claim === stream.claim);
  const text = shown(stream, "answer")
    .map((one) => one.text)
    .join("\n\n");
  const before = turn.answers[at];
  if (before) {
    return changed(turn, { answers: replaced(turn.answers, at, changed(before, { text, lane: lane.name })) });
  }
  if (!text) return turn;
  const iteration = openRound(turn)?.iteration ?? 0;
  const answer: Answer = { text, state: "streaming", iteration, claim: stream.claim, lane: lane.name };
  return { ...turn, answers: [...turn.answers, answer] };
}

function drawDraft(round: Round, lane: Lane, canvas: boolean): Round {
  const gone = lane.facts?.replaces ?? "";
  const cleared = gone ? withoutDraft(round, gone) : round;
  const at = cleared.drafts.findIndex((draft) => draft.lane === lane.name);
  const before: Draft = cleared.drafts[at] ?? {
    lane: lane.name,
    name: "",
    format: "",
    text: NOTHING,
    canvas,
    callId: "",
  };
  const draft = changed(before, {
    name: lane.facts?.artifact_name ?? "",
    format: lane.facts?.format ?? "",
    callId: lane.facts?.execution_id ?? "",
    text: growing(before.text, lane),
  });
  if (at >= 0) return changed(cleared, { drafts: replaced(cleared.drafts, at, draft) });
  return { ...withItem(cleared, { is: "draft", lane: lane.name }), drafts: [...cleared.drafts, draft] };
}

function withoutDraft(round: Round, lane: string): Round {
  return changed(round, {
    drafts: without(round.drafts, (draft) => draft.lane === lane),
    items: without(round.items, (item) => item.is === "draft" && item.lane === lane),
  });
}

/** Draw a lane of a program that is being written. It waits for its facts, which name the call. */
function drawProgram(round: Round, lane: Lane, kind: "status" | "name" | "objective" | "contract" | "code"): Round {
  const callId = lane.facts?.execution_id ?? "";
  if (!callId) return round;
  const at = round.calls.findIndex((call) => call.callId === callId);
  const call = round.calls[at];
  const program = withPart(call?.program ?? EMPTY_PROGRAM, lane, kind);
  if (call) return changed(round, { calls: replaced(round.calls, at, changed(call, { program })) });
  return {
    ...withItem(round, { is: "call", callId }),
    calls: [...round.calls, { ...emptyCall(callId, ""), program }],
  };
}

function withPart(program: Program, lane: Lane, kind: "status" | "name" | "objective" | "contract" | "code"): Program {
  switch (kind) {
    case "name":
    case "objective":
      return changed(program, { [kind]: lane.text });
    case "code":
      return changed(program, { code: growing(program.code, lane), language: lane.facts?.language ?? "" });
    case "contract": {
      const data = program.contract.length > 0 ? null : parsed(lane.text);
      return data ? { ...program, contract: promises(data) } : program;
    }
    case "status": {
      const data = parsed(lane.text);
      if (!data || textOf(data, "status") !== "error") return program;
      return changed(program, { state: "error", errorCode: textOf(objectOf(data, "error"), "code") });
    }
  }
}

function drawLog(turn: Turn, lane: Lane): Turn {
  const callId = lane.facts?.execution_id ?? "";
  return changeCall(turn, callId, (call) => changed(call, { program: withLog(call.program ?? EMPTY_PROGRAM, lane) }));
}

/** Return the JSON object in a lane, or null while it is incomplete. */
function parsed(text: string): Data | null {
  try {
    return JSON.parse(text) as Data;
  } catch {
    return null;
  }
}
