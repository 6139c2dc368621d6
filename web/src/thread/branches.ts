/**
 * The branches of a conversation, placed at the messages where they part. Pure.
 *
 * A branch is a conversation that continues another one, its origin, from batch `n`. All branches of a conversation form
 * a tree, whose root is no branch. Source: docs/concepts/forks.md.
 */

import type { Message, Thread, Turn } from "./thread.ts";

/** A member of the tree; `origin` is "" for the root, which comes first. */
export interface Branch {
  readonly conversation: string;
  readonly origin: string;
  /** The last batch that it shares with its origin. */
  readonly n: number;
  readonly title: string;
  /** Epoch milliseconds. */
  readonly begunAt: number;
  readonly lastActivityAt: number;
}

/** A place at which the shown conversation and others part. */
export interface BranchPoint {
  /** The last batch that they share. */
  readonly after: number;
  /** A way to continue each: the conversations that take it, the most recently active one first. The oldest way is first. */
  readonly ways: readonly (readonly string[])[];
  /** The index of the way of the shown conversation. */
  readonly at: number;
}

/** A step of a conversation's history: its batches in the log of `conversation`, up to `upto`. */
interface Step {
  readonly conversation: string;
  readonly upto: number;
}

/** Return the places at which other branches part from a conversation, in the order of its log. */
export function branchPoints(branches: readonly Branch[], conversation: string): readonly BranchPoint[] {
  const known = new Map(branches.map((branch) => [branch.conversation, branch]));
  const histories = new Map(branches.map((branch) => [branch.conversation, historyOf(known, branch)]));
  const own = histories.get(conversation);
  if (!own) return [];
  const places = new Map<string, Step>();
  for (const branch of branches) {
    const place = branch.origin ? placeOf(known, branch) : null;
    if (place) places.set(`${place.conversation} ${place.upto}`, place);
  }
  return [...places.values()]
    .filter((place) => passes(own, place))
    .map((place) => pointAt(place, branches, histories, conversation))
    .filter((point) => point.ways.length > 1)
    .sort((a, b) => a.after - b.after);
}

function pointAt(
  place: Step,
  branches: readonly Branch[],
  histories: ReadonlyMap<string, readonly Step[]>,
  conversation: string,
): BranchPoint {
  const ways = new Map<string, Branch[]>();
  for (const branch of branches) {
    const history = histories.get(branch.conversation) ?? [];
    if (!passes(history, place)) continue;
    const way = wayFrom(history, place);
    ways.set(way, [...(ways.get(way) ?? []), branch]);
  }
  const begun = (way: string) => branches.find((one) => one.conversation === way)?.begunAt ?? 0;
  const origin = place.conversation;
  const order = [...ways.keys()].sort((a, b) => Number(b === origin) - Number(a === origin) || begun(a) - begun(b));
  const names = order.map((way) => byActivity(ways.get(way) ?? []).map((branch) => branch.conversation));
  return { after: place.upto, ways: names, at: names.findIndex((way) => way.includes(conversation)) };
}

function byActivity(branches: readonly Branch[]): readonly Branch[] {
  return [...branches].sort((a, b) => b.lastActivityAt - a.lastActivityAt);
}

/**
 * Return where a branch parts from its origin. If it begins after the first batch of another branch, which has no message,
 * both part at the same message.
 */
function placeOf(known: ReadonlyMap<string, Branch>, branch: Branch): Step {
  let one = branch;
  for (;;) {
    const origin = known.get(one.origin);
    if (!origin?.origin || one.n !== origin.n + 1) return { conversation: one.origin, upto: one.n };
    one = origin;
  }
}

/** Return the logs that a conversation is made of, its own last. */
function historyOf(known: ReadonlyMap<string, Branch>, branch: Branch): readonly Step[] {
  const steps: Step[] = [{ conversation: branch.conversation, upto: Number.POSITIVE_INFINITY }];
  const seen = new Set<string>();
  for (let one = branch; one.origin && !seen.has(one.conversation); ) {
    seen.add(one.conversation);
    const place = placeOf(known, one);
    steps.unshift(place);
    const origin = known.get(place.conversation);
    if (!origin) break;
    one = origin;
  }
  return steps;
}

/** Return true if a history has the batches up to a place. */
function passes(history: readonly Step[], place: Step): boolean {
  return history.some((step) => step.conversation === place.conversation && step.upto >= place.upto);
}

/** Return the log with which a history goes on after a place. */
function wayFrom(history: readonly Step[], place: Step): string {
  const at = history.findIndex((step) => step.conversation === place.conversation);
  const here = history[at];
  return here && here.upto > place.upto ? place.conversation : (history[at + 1]?.conversation ?? place.conversation);
}

/**
 * Return the points by the id of the message that follows each; by "" if no message follows yet. A point on a page that is
 * not loaded has none.
 */
export function pointsByMessage(
  points: readonly BranchPoint[],
  thread: Thread,
): ReadonlyMap<string, readonly BranchPoint[]> {
  const placed = new Map<string, readonly BranchPoint[]>();
  if (points.length === 0) return placed;
  const messages = inLog(thread);
  for (const point of points) {
    if (!isLoaded(thread, point.after)) continue;
    const id = messages.find((message) => message.n > point.after)?.messageId ?? "";
    placed.set(id, [...(placed.get(id) ?? []), point]);
  }
  return placed;
}

function inLog({ turns, loose }: Thread): readonly Message[] {
  const all = [...turns.flatMap((turn) => [...turn.prompts, ...turn.messages]), ...loose];
  return all.filter((message) => message.n > 0).sort((a, b) => a.n - b.n);
}

function isLoaded(thread: Thread, n: number): boolean {
  return thread.turnsBefore === 0 || thread.turns.some((turn) => turn.openedN > 0 && turn.openedN <= n);
}

/** Return the last turn that began before or with a batch, undefined if it is not loaded. */
export function turnBefore({ turns }: Pick<Thread, "turns">, n: number): Turn | undefined {
  return turns.findLast((turn) => turn.openedN > 0 && turn.openedN <= n);
}

/** Return the messages of a turn that are sent again when it runs again; none if a service sent one of its prompts. */
export function messagesAgain(turn: Turn): readonly Message[] {
  if (turn.prompts.length === 0 || turn.prompts.some((message) => !isOwn(message))) return [];
  const later = turn.messages.filter((message) => message.kind !== "steer" && message.state.is !== "dropped");
  return [...turn.prompts, ...later.filter(isOwn)];
}

/** Return true for a message that the user wrote and the log has. */
export function isOwn({ n, kind, source }: Message): boolean {
  return n > 0 && source === "" && (kind === "prompt" || kind === "followup" || kind === "steer");
}
