/**
 * The client as a pure fold: state and frame in, state and effects out. Frames may be lost, repeated or late.
 *
 * Durable events are applied exactly once and in the order of the log: each frame names the previous batch with events,
 * so a gap is detected. Running text is addressed by character (code point): for any order of frames, the text is a
 * prefix of what the model wrote.
 */

import { countCharacters, dropCharacters } from "./characters.ts";
import { foldControl, foldEnds, NO_CONTROL } from "./control.ts";
import type { Effect } from "./effect.ts";
import {
  type AckFrame,
  BEYOND_END,
  type ClientEvent,
  CONTROL_LANE,
  DELETED,
  type DeltaFrame,
  type ErrorFrame,
  type EventFrame,
  EXPIRED,
  type Frame,
  type SyncFrame,
  TERMINAL,
  UNREADABLE,
} from "./frames.ts";
import type { Request } from "./outgoing.ts";
import {
  type ClientState,
  emptyState,
  forgetMessage,
  isStreaming,
  type LaneText,
  NO_TEXT,
  withEntry,
  without,
} from "./state.ts";
import { errorFrame, isReportLane, joinPieces, newestReportLane, readReport } from "./wire.ts";

export type Folded = readonly [state: ClientState, effects: readonly Effect[]];

/** Return true if the server may accept the same message, under the same id, later or with a fresh token. */
export function isPassing(refusal: ErrorFrame): boolean {
  return refusal.retryable || EXPIRED.has(refusal.code);
}

/** Return the request for everything that this client is missing. */
export function resumeRequest(state: ClientState): Request {
  const request = { action: "resume", conversation: state.conversation, after: state.cursor };
  if (!isStreaming(state)) return request;
  const off = Object.fromEntries([...state.lanes].map(([name, lane]) => [name, lane.end]));
  return { ...request, stream: { claim: state.claim, off } };
}

/**
 * Apply one frame. A frame of another conversation changes nothing.
 *
 * The effect for a changed queue position comes last.
 */
export function foldFrame(state: ClientState, frame: Frame): Folded {
  const [after, effects] = fold(state, frame);
  if (after.place === state.place) return [after, effects];
  return [after, [...effects, { kind: "waiting", turnId: after.turnId || state.turnId, place: after.place }]];
}

function fold(state: ClientState, frame: Frame): Folded {
  switch (frame.frame) {
    case "ack":
      return foldAck(state, frame);
    case "error":
      return ["", state.conversation].includes(frame.conversation) ? foldRefusal(state, frame) : [state, []];
    case "watching":
    case "feed":
      return [state, [{ kind: "feedHeard", frame }]];
    case "auth":
      return [state, []];
    default:
      return frame.conversation === state.conversation ? foldProgress(state, frame) : [state, []];
  }
}

/** Apply frames in order. */
export function foldFrames(state: ClientState, frames: Iterable<Frame>): Folded {
  const effects: Effect[] = [];
  let folded = state;
  for (const frame of frames) {
    const [next, more] = foldFrame(folded, frame);
    folded = next;
    effects.push(...more);
  }
  return [folded, effects];
}

type Progress = Exclude<Frame, { frame: "ack" | "error" | "watching" | "feed" | "auth" }>;

function foldProgress(state: ClientState, frame: Progress): Folded {
  switch (frame.frame) {
    case "events":
      return foldEvents(state, frame);
    case "delta":
      return foldDelta(state, frame);
    case "sync":
      return foldSync(state, frame);
    case "pong":
      // The position belongs to the turn that the known events describe. It is valid only if no events are missing.
      return [
        noteNewest(frame.n === state.cursor && state.open ? { ...state, place: frame.place } : state, frame.n),
        [],
      ];
    case "notice":
      return [state, [{ kind: "noticeHeard", frame }]];
  }
}

/** Forget the answered message. Its batch has events, so a client without them has missed them. */
function foldAck(state: ClientState, frame: AckFrame): Folded {
  let next = forgetMessage(state, frame.message_id);
  if (frame.conversation === state.conversation) next = noteNewest(next, frame.n, frame.newest);
  return [next, [{ kind: "acknowledged", frame }]];
}

/**
 * Forget a message that is refused for good. A refusal without a readable id applies to the only unanswered message, if
 * there is just one.
 */
function foldRefusal(state: ClientState, refusal: ErrorFrame): Folded {
  let frame = refusal;
  const [only] = state.unacked.keys();
  if (!frame.message_id && UNREADABLE.has(frame.code) && state.unacked.size === 1 && only) {
    frame = { ...frame, message_id: only };
  }
  const effects: readonly Effect[] = [{ kind: "refused", frame }];
  if (frame.code === BEYOND_END) return [{ ...emptyState(state.conversation), unacked: state.unacked }, effects];
  const left = isPassing(frame) ? state : forgetMessage(state, frame.message_id);
  if (frame.code !== DELETED || !frame.conversation) return [left, effects];
  const [gone, more] = markDeleted(left, left.cursor);
  return [gone, [...more, ...effects]];
}

function foldEvents(state: ClientState, frame: EventFrame): Folded {
  if (frame.n <= state.cursor) return [state, []];
  if (frame.prev > state.cursor) return [noteNewest(state, frame.n), []];
  // prev <= cursor < n: no batch in between has events, even if the cursor names a batch without events.
  if (frame.parts === 1) return applyBatch(state, frame, frame.events);
  const pieces = withEntry(state.parts.get(frame.n) ?? new Map<number, string>(), frame.part, frame.piece);
  const noted = noteNewest(state, frame.n);
  if (pieces.size < frame.parts) return [{ ...noted, parts: new Map([[frame.n, pieces]]) }, []];
  const whole = joined(pieces, frame.parts);
  // The parts come from different releases, which filter differently: request the whole batch again.
  return whole ? applyBatch(noted, frame, whole) : [{ ...noted, parts: new Map() }, []];
}

function joined(pieces: ReadonlyMap<number, string>, parts: number): readonly ClientEvent[] | null {
  const inOrder: string[] = [];
  for (let part = 1; part <= parts; part += 1) {
    const piece = pieces.get(part);
    if (piece === undefined) return null;
    inOrder.push(piece);
  }
  try {
    return joinPieces(inOrder);
  } catch {
    return null;
  }
}

function applyBatch(state: ClientState, frame: EventFrame, events: readonly ClientEvent[]): Folded {
  const began = state.began < 0 ? state.cursor : state.began;
  let next: ClientState = { ...state, cursor: frame.n, began, parts: new Map() };
  const effects: Effect[] = [{ kind: "eventsApplied", n: frame.n, prev: frame.prev, events }];
  for (const event of events) {
    const [folded, more] = applyEvent(next, frame.n, event);
    next = folded;
    effects.push(...more);
  }
  // Each queued message was read, handed back, or opens the next turn.
  if (events.some((event) => TERMINAL.has(event.type))) next = { ...next, queued: new Map() };
  const [followed, more] = follow(next, frame.claim);
  return [followed, [...effects, ...more]];
}

function applyEvent(state: ClientState, n: number, event: ClientEvent): Folded {
  switch (event.type) {
    case "chat.start":
      return [{ ...state, open: true, turnId: event.turn_id }, []];
    case "turn.queued":
      return [{ ...state, place: asNumber(event.data.place) }, []];
    case "turn.begun":
      return [{ ...state, place: 0 }, []];
    case "solver.react.decision":
      return settle(state, asNumber(event.data.claim));
    case "round.restarted":
      return follow(state, n); // the batch of the restart is the claim of the new attempt
    case "chat.conversation.accepted":
      return [queue(state, event), []];
    case "chat.step":
      return event.step === "dropped" ? handBack(state, event) : [state, []];
    case "approval.requested":
      return [{ ...state, approval: asText(event.data.call_id) }, []];
    case "approval.answered":
      return [{ ...state, approval: "" }, []];
    case "timeline.external.steer.interrupted":
      return [state, [steered(event)]];
    case "react.tool.result":
      return settle(state, n - 1); // the reports of the call
    case "code_exec.status":
      // The program's log is complete.
      return ["done", "error"].includes(asText(event.data.status)) ? settle(state, n - 1) : [state, []];
    case "conv.status":
      return event.data.state === "deleted" ? deleted(state, n) : [state, []];
    case "chat.complete":
    case "chat.error":
      return end(state, n, event);
    default:
      return [state, []];
  }
}

function queue(state: ClientState, event: ClientEvent): ClientState {
  if (!["followup", "steer"].includes(asText(event.data.kind))) return state;
  return { ...state, queued: withEntry(state.queued, asText(event.data.message_id), asText(event.data.text)) };
}

/** Report a message that was handed back, with its text if this client has seen it. */
function handBack(state: ClientState, { data }: ClientEvent): Folded {
  const messageId = asText(data.message_id);
  const handed: Effect = {
    kind: "handedBack",
    n: asNumber(data.n),
    messageId,
    messageKind: asText(data.kind),
    text: state.queued.get(messageId) ?? "",
    reason: asText(data.reason),
  };
  return [{ ...state, queued: without(state.queued, messageId) }, [handed]];
}

function steered({ data, turn_id: turnId }: ClientEvent): Effect {
  return {
    kind: "steered",
    n: asNumber(data.sequence),
    turnId,
    messageId: asText(data.message_id),
    text: asText(data.text),
    phase: asText(data.cancelled_phase),
    finalizeRounds: asNumber(data.finalize_rounds),
  };
}

/** Close the turn: settle every stream that began before batch `n`; the recorded answer is final. */
function end(state: ClientState, n: number, event: ClientEvent): Folded {
  const { data, turn_id: turnId } = event;
  const ended: Effect = {
    kind: "turnEnded",
    n,
    turnId,
    outcome: event.type === "chat.complete" ? "completed" : "error",
    answer: asText(data.answer),
    reason: asText(data.reason),
    code: asText(data.code),
    message: asText(data.error),
    retryable: Boolean(data.retryable),
    retryAfterS: asNumber(data.retry_after_s),
  };
  const [settled, effects] = settle(state, n - 1);
  // The stream of the next turn may have arrived before this event.
  const streams = isStreaming(settled) ? {} : { lanes: new Map(), control: NO_CONTROL };
  const next = { ...settled, ...streams, open: false, turnId: "", approval: "", place: 0, ended: turnId };
  return [next, [...effects, ended]];
}

/** Report that the conversation was deleted, in the form of a refusal. */
function deleted(state: ClientState, n: number): Folded {
  const [gone, effects] = markDeleted(state, n);
  const message = "the conversation was deleted";
  const frame = errorFrame({ code: DELETED, message, conversation: state.conversation });
  return [gone, [...effects, { kind: "refused", frame }]];
}

/**
 * End the turn and everything that runs, because the conversation was deleted. Unanswered messages are refused one by
 * one.
 */
function markDeleted(state: ClientState, upto: number): Folded {
  const [settled, effects] = settle(state, Math.max(state.claim, state.settled, upto));
  const gone: ClientState = {
    ...settled,
    lanes: new Map(),
    control: NO_CONTROL,
    parts: new Map(),
    queued: new Map(),
    open: false,
    turnId: "",
    approval: "",
    place: 0,
    ended: state.turnId || state.ended,
    deleted: true,
  };
  return [gone, effects];
}

/** Settle all streams up to `upto`: they no longer grow. */
function settle(state: ClientState, upto: number): Folded {
  if (upto <= state.settled) return [state, []];
  if (!isStreaming(state) || state.claim > upto) return [{ ...state, settled: upto }, []];
  const lanes = new Map<string, LaneText>();
  for (const [name, lane] of state.lanes) lanes.set(name, lane.early.length ? { ...lane, early: [] } : lane);
  return [{ ...state, lanes, settled: upto }, [{ kind: "streamSettled", claim: state.claim }]];
}

/** Switch to a newer stream. The displayed text of an unsettled older one becomes void. */
function follow(state: ClientState, claim: number): Folded {
  if (claim <= state.claim) return [state, []];
  const isVoid = isStreaming(state) && state.lanes.size > 0;
  const effects: readonly Effect[] = isVoid ? [{ kind: "streamReset", claim: state.claim }] : [];
  return [{ ...state, claim, lanes: new Map(), control: NO_CONTROL }, effects];
}

function foldDelta(state: ClientState, frame: DeltaFrame): Folded {
  if (frame.claim <= state.settled || frame.claim < state.claim) return [state, []];
  const [followed, effects] = follow(state, frame.claim);
  const before = followed.lanes.get(frame.lane) ?? NO_TEXT;
  const kept = forget(before, frame.start);
  const [lane, added] = grow(kept, frame.off, frame.text);
  const next = { ...followed, lanes: withEntry(followed.lanes, frame.lane, lane) };
  if (lane.end <= before.end) return [next, effects];
  const [reported, more] = reportGrowth(next, frame.lane, kept.end, before.end < kept.end, added);
  return [reported, [...effects, ...more]];
}

/**
 * Report the text that lane `name` received from character `off` on. `gap` means that the text before it is stored
 * nowhere.
 */
function reportGrowth(state: ClientState, name: string, off: number, gap: boolean, added: string): Folded {
  const { claim } = state;
  const received: (readonly [string, number])[] = [];
  if (isReportLane(name)) return [state, foldReports(state, name, off)];
  let control = state.control;
  let reported: readonly Effect[];
  if (name === CONTROL_LANE) {
    [control, reported] = foldControl(gap ? { ...control, rest: "" } : control, claim, added);
    for (const [known, lane] of state.lanes) received.push([known, lane.end]);
  } else {
    reported = [{ kind: "textAppended", claim, lane: name, off, text: added }];
    received.push([name, state.lanes.get(name)?.end ?? 0]);
  }
  const [left, ended] = foldEnds(control, claim, received);
  return [left === state.control ? state : { ...state, control: left }, [...reported, ...ended]];
}

/** Report the lines that are complete now, unless a later attempt at the call has reported, too. */
function foldReports(state: ClientState, name: string, before: number): readonly Effect[] {
  if (name !== newestReportLane(state.lanes.keys())) return [];
  const { text } = state.lanes.get(name) ?? NO_TEXT;
  const known = text.length - dropCharacters(text, before).length;
  const begin = known === 0 ? 0 : text.lastIndexOf("\n", known - 1) + 1;
  const lines = text.slice(begin, text.lastIndexOf("\n") + 1).split("\n");
  const events = lines.map(readReport).filter((event) => event !== null);
  return events.length ? [{ kind: "reported", claim: state.claim, lane: name, events }] : [];
}

/** Forget the text before character `start`, which is stored nowhere. */
function forget(lane: LaneText, start: number): LaneText {
  if (start <= lane.base) return lane;
  const text = dropCharacters(lane.text, start - lane.base);
  return { ...lane, base: start, text, end: Math.max(lane.end, start) };
}

/** Add one piece, then every early piece that now connects. Return the lane and its new text. */
function grow(lane: LaneText, off: number, piece: string): readonly [LaneText, string] {
  const pieces = lane.early.length ? inOrder([...lane.early, [off, piece]]) : [[off, piece] as const];
  const early: (readonly [number, string])[] = [];
  let end = lane.end;
  let added = "";
  for (const [at, text] of pieces) {
    if (at > end) {
      early.push([at, text]);
      continue;
    }
    const fresh = at === end ? text : dropCharacters(text, end - at);
    end += countCharacters(fresh);
    added += fresh;
  }
  return [{ base: lane.base, text: lane.text + added, end, early }, added];
}

/** Return pieces by offset, without duplicates. */
function inOrder(pieces: readonly (readonly [number, string])[]): readonly (readonly [number, string])[] {
  const sorted = [...pieces].sort(([a, x], [b, y]) => a - b || x.length - y.length);
  return sorted.filter(([at, text], i) => !sorted.slice(0, i).some(([a, x]) => a === at && x === text));
}

function foldSync(state: ClientState, frame: SyncFrame): Folded {
  const [followed, effects] = follow(state, frame.claim);
  let next = noteNewest(followed, frame.n);
  if (frame.n === next.cursor) {
    // Otherwise events are missing, or have arrived since; those say whether the turn is open and queued.
    next = { ...next, open: frame.open, turnId: frame.open ? frame.turn_id : "", place: frame.open ? frame.place : 0 };
  }
  const hasRequest = next.began >= 0 && next.began < frame.approval; // an older frame, if it has been answered since
  if (frame.approval && !next.approval && next.cursor >= frame.approval && !hasRequest) {
    // This client started after the request, so it requests the events from there on.
    next = { ...next, cursor: frame.approval - 1, began: -1 };
  }
  return [next, [...effects, { kind: "synced", frame }]];
}

function noteNewest(state: ClientState, ...numbers: readonly number[]): ClientState {
  const newest = Math.max(state.newest, ...numbers);
  return newest === state.newest ? state : { ...state, newest };
}

function asText(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}

function asNumber(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
