/** The fold of a conversation: effects of the client core in, the thread to render out. Pure. */

import {
  BEYOND_END,
  type ClientEvent,
  type Effect,
  type LaneEnded,
  type LaneKnown,
  type Reported,
  type TextAppended,
} from "../client/index.ts";
import { withReports } from "./acting.ts";
import { drawLane, drawStream } from "./draw.ts";
import { numberOf, numbersOf, textOf } from "./fields.ts";
import { handedBack, isStop, messageOf, takeMessages, withMessage } from "./messages.ts";
import { AFTERWARDS, ELSEWHERE, IN_THREAD, IN_TURN, nameOf } from "./places.ts";
import { openRound, withoutStream } from "./rounds.ts";
import { changed, changedLast, replaced, without } from "./share.ts";
import { appended, emptyStream, ended, known, laneKind, laneOf, withLane } from "./stream.ts";
import type { Lane, Message, Stream, Thread, Turn } from "./thread.ts";
import { emptyTurn, openedTurn } from "./turns.ts";

export function emptyThread(conversation: string): Thread {
  return {
    conversation,
    title: "",
    state: "created",
    turns: [],
    turnsBefore: 0,
    loose: [],
    plans: [],
    files: [],
    sources: new Map(),
    unknown: new Map(),
    cursor: 0,
    stream: null,
    early: [],
  };
}

export function foldEffects(thread: Thread, effects: readonly Effect[]): Thread {
  return effects.reduce(foldEffect, thread);
}

function foldEffect(thread: Thread, effect: Effect): Thread {
  switch (effect.kind) {
    case "eventsApplied":
      // A client that started after an unanswered approval receives the approval's batch and all later ones once more.
      return effect.n > thread.cursor ? foldBatch(thread, effect.n, effect.events) : thread;
    case "textAppended":
      return changeLane(thread, effect, (lane) => appended(lane, effect));
    case "reported":
      return reported(thread, effect);
    case "laneKnown":
      return changeLane(thread, effect, (lane) => known(lane, effect));
    case "laneEnded":
      return changeLane(thread, effect, (lane) => ended(lane, effect));
    case "streamReset":
      return reset(thread, effect.claim);
    case "streamSettled":
      return settle(thread, effect.claim);
    case "waiting":
      return lined(thread, effect.turnId, effect.place);
    case "refused":
      return effect.frame.code === BEYOND_END ? emptyThread(thread.conversation) : thread;
    default:
      return thread; // The other effects repeat what the events say, or concern this client's own messages.
  }
}

// --- durable events

/** Apply the events of one batch. */
export function foldBatch(thread: Thread, n: number, events: readonly ClientEvent[]): Thread {
  let next = changed(thread, { cursor: Math.max(thread.cursor, n) });
  for (const event of events) next = foldEvent(next, n, event, events);
  return redrawn(next);
}

/** Draw the running stream where it belongs now: its text may arrive before the event that it follows. */
export function redrawn(thread: Thread): Thread {
  const open = thread.turns.at(-1);
  if (!thread.stream || open?.outcome.is !== "running") return thread;
  return withTurn(thread, thread.turns.length - 1, drawStream(open, thread.stream));
}

function foldEvent(thread: Thread, n: number, event: ClientEvent, batch: readonly ClientEvent[]): Thread {
  const name = nameOf(event);
  switch (name) {
    case "chat.conversation.accepted":
      return said(thread, n, event, batch);
    case "queue.continuation.accepted":
      return thread; // read together with the waiting message
    case "chat.start":
      return opened(thread, n, event);
    case "chat.step dropped":
      return handBack(thread, n, event);
  }
  const inTurn = Object.hasOwn(IN_TURN, name) ? IN_TURN[name] : undefined;
  const inThread = Object.hasOwn(IN_THREAD, name) ? IN_THREAD[name] : undefined;
  if (!inTurn && !inThread) return ELSEWHERE.includes(name) ? thread : counted(thread, name);
  const placed = inTurn ? inItsTurn(thread, n, event) : thread;
  return settledBy(inThread ? inThread(placed, event) : placed, n, event);
}

/** Apply an event to its turn. Events of a turn that began on an earlier page are stored for that page. */
function inItsTurn(thread: Thread, n: number, event: ClientEvent): Thread {
  const at = thread.turns.findLastIndex((turn) => turn.turnId === event.turn_id);
  const turn = thread.turns[at];
  if (turn) {
    const kept = turn.openedN > 0 ? thread : putOff(thread, n, event);
    return withTurn(kept, at, foldTurn(turn, n, event));
  }
  const kept = putOff(thread, n, event);
  if (AFTERWARDS.has(event.type)) return kept;
  const part = emptyTurn(event.turn_id, Date.parse(event.ts));
  return { ...kept, turns: [...kept.turns, foldTurn(part, n, event)] };
}

/** Apply an event to its turn only. */
export function foldTurn(turn: Turn, n: number, event: ClientEvent): Turn {
  return IN_TURN[nameOf(event)]?.(turn, event, n) ?? turn;
}

function putOff(thread: Thread, n: number, event: ClientEvent): Thread {
  return { ...thread, early: [...thread.early, { n, event }] };
}

/** End the streams that an event settles, as the client core does. */
function settledBy(thread: Thread, n: number, event: ClientEvent): Thread {
  switch (event.type) {
    case "solver.react.decision":
      return settle(thread, numberOf(event.data, "claim"));
    case "chat.complete":
    case "chat.error":
      return settle(thread, n - 1);
    case "code_exec.status":
      return ["done", "error"].includes(textOf(event.data, "status")) ? settle(thread, n - 1) : thread;
    default:
      return thread;
  }
}

function said(thread: Thread, n: number, event: ClientEvent, batch: readonly ClientEvent[]): Thread {
  const message = messageOf(n, event);
  const waits = batch.find(
    (other) => other.type === "queue.continuation.accepted" && textOf(other.data, "message_id") === message.messageId,
  );
  if (!waits) return isStop(message) ? thread : { ...thread, loose: [...thread.loose, message] };
  return beside(thread, n, event, message, textOf(waits.data, "active_turn_id"));
}

/** Add a message to the open turn. If that began on an earlier page, also store it for the turn. */
function beside(thread: Thread, n: number, event: ClientEvent, message: Message, turnId: string): Thread {
  const at = thread.turns.findLastIndex((turn) => turn.turnId === turnId);
  const turn = thread.turns[at];
  const kept = turn && turn.openedN > 0 ? thread : putOff(thread, n, { ...event, turn_id: turnId });
  return turn ? withTurn(kept, at, withMessage(turn, message)) : kept;
}

/** Hand a message back. If it is on an earlier page, or in a turn that began there, store that for the page. */
export function handBack(thread: Thread, n: number, event: ClientEvent): Thread {
  const next = handedBack(thread, event);
  const number = numberOf(event.data, "n");
  const isPart = thread.turns.some((turn) => turn.openedN === 0 && turn.messages.some((one) => one.n === number));
  return next && !isPart ? next : putOff(next ?? thread, n, event);
}

function opened(thread: Thread, n: number, event: ClientEvent): Thread {
  const [rest, prompts] = takeMessages(thread, numbersOf(event.data, "prompts"));
  return { ...rest, turns: [...rest.turns, openedTurn(n, event, prompts)] };
}

/** Update the queue position of a turn: its events are older. */
function lined(thread: Thread, turnId: string, place: number): Thread {
  const isIt = (turn: Turn) => turn.turnId === turnId && turn.outcome.is === "running";
  return changed(thread, { turns: changedLast(thread.turns, isIt, (turn) => changed(turn, { place })) });
}

function counted(thread: Thread, name: string): Thread {
  return { ...thread, unknown: new Map(thread.unknown).set(name, (thread.unknown.get(name) ?? 0) + 1) };
}

export function withTurn(thread: Thread, at: number, turn: Turn): Thread {
  return changed(thread, { turns: replaced(thread.turns, at, turn) });
}

// --- running text

/** Add the reports of a running call. They are no part of the log, so they are lost with a turn that is not here. */
function reported(thread: Thread, { lane, events }: Reported): Thread {
  const at = thread.turns.findLastIndex((turn) => turn.turnId === events[0]?.turn_id);
  const turn = thread.turns[at];
  return turn ? withTurn(thread, at, withReports(turn, lane, events)) : thread;
}

function changeLane(
  thread: Thread,
  effect: TextAppended | LaneKnown | LaneEnded,
  change: (lane: Lane) => Lane,
): Thread {
  const stream = thread.stream?.claim === effect.claim ? thread.stream : emptyStream(effect.claim);
  const lane = change(laneOf(stream, effect.lane));
  const isNew = laneKind(lane.name) === "" && !stream.lanes.has(lane.name);
  const noted = isNew ? counted(thread, lane.name.replace(/\d+/g, "<i>")) : thread;
  return drawn({ ...noted, stream: withLane(stream, lane) }, lane);
}

function drawn(thread: Thread & { readonly stream: Stream }, lane: Lane): Thread {
  const at = thread.turns.length - 1;
  const turn = thread.turns[at];
  return turn?.outcome.is === "running" ? withTurn(thread, at, drawLane(turn, thread.stream, lane)) : thread;
}

function settle(thread: Thread, upto: number): Thread {
  return thread.stream && thread.stream.claim <= upto ? { ...thread, stream: null } : thread;
}

/** Drop the text that streamed under a claim. */
function reset(thread: Thread, claim: number): Thread {
  const next = settle(thread, claim);
  const isOpen = (turn: Turn) => turn.outcome.is === "running";
  return changed(next, { turns: changedLast(next.turns, isOpen, (turn) => withoutClaim(turn, claim)) });
}

function withoutClaim(turn: Turn, claim: number): Turn {
  const answers = without(turn.answers, (one) => one.state === "streaming" && one.claim === claim);
  const open = openRound(turn);
  if (open?.claim !== claim) return changed(turn, { answers });
  return changed(turn, { answers, rounds: turn.rounds.with(-1, { ...withoutStream(open), claim: 0 }) });
}
