/** Pages of the past: older events are put before a thread, as if they had been folded first. */

import type { ClientEvent, EventFrame } from "../client/index.ts";
import { joinPieces } from "../client/wire.ts";
import { withFiles } from "./files.ts";
import { emptyThread, foldBatch, foldTurn, handBack, redrawn, withTurn } from "./fold.ts";
import { inOrder, messageOf, takeMessages, withMessage } from "./messages.ts";
import { nameOf } from "./places.ts";
import { withPlan } from "./plans.ts";
import { changed } from "./share.ts";
import type { Source, Thread, Turn } from "./thread.ts";

/** Put the events of a page before a thread. The page ends where the thread begins. */
export function prependPage(thread: Thread, frames: readonly EventFrame[]): Thread {
  return redrawn(joined(foldFrames(emptyThread(thread.conversation), frames), thread));
}

/** Apply frames of durable events in order; a batch may arrive in parts. */
function foldFrames(thread: Thread, frames: readonly EventFrame[]): Thread {
  let pieces: string[] = [];
  let next = thread;
  for (const frame of frames) {
    if (frame.parts > 1) pieces.push(frame.piece);
    if (frame.part < frame.parts) continue;
    next = foldBatch(next, frame.n, frame.parts > 1 ? joinPieces(pieces) : frame.events);
    pieces = [];
  }
  return next;
}

/** Put a thread after an older one. */
function joined(page: Thread, thread: Thread): Thread {
  const merged = thread.early.reduce((older, { n, event }) => afterwards(older, n, event), page);
  // The part of a turn that the thread had is now in the page's turn.
  const own = thread.turns.filter(
    (turn) => turn.openedN > 0 || !merged.turns.some((one) => one.turnId === turn.turnId),
  );
  const [older, turns] = withPrompts(merged, own);
  return {
    ...thread,
    title: thread.title || older.title,
    state: thread.state === "created" ? older.state : thread.state,
    turns: [...older.turns, ...turns],
    loose: [...older.loose, ...thread.loose],
    plans: thread.plans.reduce(withPlan, older.plans),
    files: withFiles(older.files, thread.files),
    sources: withNewer(older.sources, thread.sources),
    unknown: added(older.unknown, thread.unknown),
    cursor: Math.max(older.cursor, thread.cursor),
    early: older.early,
  };
}

/** Apply an event of a later batch to the page. If its target is not there, the event is stored for the page before. */
function afterwards(page: Thread, n: number, event: ClientEvent): Thread {
  const kept = { ...page, early: [...page.early, { n, event }] };
  if (nameOf(event) === "chat.step dropped") return handBack(page, n, event);
  const at = page.turns.findLastIndex((turn) => turn.turnId === event.turn_id);
  const turn = page.turns[at];
  if (!turn) return kept;
  const merged =
    event.type === "chat.conversation.accepted" ? withMessage(turn, messageOf(n, event)) : foldTurn(turn, n, event);
  return withTurn(turn.openedN > 0 ? page : kept, at, merged);
}

/** Add the prompts that are on the page to their turns. */
function withPrompts(page: Thread, turns: readonly Turn[]): [Thread, readonly Turn[]] {
  let older = page;
  const headed = turns.map((turn) => {
    const [rest, found] = takeMessages(older, turn.promptNs);
    const missing = found.filter(({ n }) => !turn.prompts.some((prompt) => prompt.n === n));
    older = rest;
    return missing.length === 0
      ? turn
      : changed(turn, { prompts: inOrder([...turn.prompts, ...missing], turn.promptNs) });
  });
  return [older, headed];
}

function withNewer(older: Thread["sources"], newer: Thread["sources"]): Thread["sources"] {
  const all = new Map<number, Source>(older);
  for (const [sid, source] of newer) {
    const before = older.get(sid);
    all.set(sid, {
      sid,
      title: source.title || before?.title || "",
      url: source.url || before?.url || "",
      path: source.path || before?.path || "",
      snippet: source.snippet || before?.snippet || "",
    });
  }
  return all;
}

function added(older: Thread["unknown"], newer: Thread["unknown"]): Thread["unknown"] {
  const all = new Map(older);
  for (const [name, count] of newer) all.set(name, (all.get(name) ?? 0) + count);
  return all;
}
