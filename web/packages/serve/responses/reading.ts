/** Where the turn of a response is read: from its message or its answer on. */

import { TERMINAL } from "../../../src/client/frames.ts";
import { type ClientEvent, emptyState, type Session } from "../../../src/client/index.ts";
import { acceptedIn, requestIn } from "../../../src/door/sent.ts";
import type { Past, Stage } from "../../../src/door/stage.ts";
import { foldTurn, follow, followFrom, type TurnCursor } from "../../../src/door/turn_parts.ts";
import type { Following } from "../../../src/door/turn_stream.ts";
import { type ResponseState, stateOf } from "./draft.ts";
import type { Approval } from "./input.ts";
import { openResponses } from "./mapping.ts";
import { type ResponseFacts, seconds } from "./resource.ts";
import type { ResponseName } from "./response_id.ts";

/** A response in the log. */
export interface Found {
  readonly facts: ResponseFacts;
  readonly past: Past;
  readonly following: Following;
  /** The turn that it shows, or that its message may join. */
  readonly turn: string;
  /** Why no turn reads the message, "" if one may. */
  readonly handedBack: string;
}

/** How many turns are searched for a response, one after the other. */
const TURNS = [1, 20, 100];

/** Return a response of the log, null if the newest 100 turns do not have it. Throws ApiError. */
export async function findResponse(stage: Stage, name: ResponseName): Promise<Found | null> {
  for (const turns of TURNS) {
    const past = await stage.readTurns(turns);
    if (!past) return null;
    const found = name.after === "message" ? afterMessage(stage, past, name) : afterRequest(past, name);
    if (found) return found;
  }
  return null;
}

function afterMessage(stage: Stage, past: Past, name: ResponseName): Found | null {
  const accepted = acceptedIn(past, name.id);
  if (!accepted) return null;
  const { turn_id: joined } = accepted;
  const own = follow({ message: name.id });
  const known = past.effects.reduce((cursor, effect) => foldTurn(cursor, effect)[0], own);
  const isJoined = known.is === "before" && endsIn(past, joined);
  const cursor = isJoined ? follow({ turn: joined }) : own;
  const facts = factsOf(name, accepted, null);
  const handedBack = handedBackIn(past, name.id);
  return { facts, past, following: { ...past, cursor, ...joining(stage) }, turn: known.turn || joined, handedBack };
}

function afterRequest(past: Past, name: ResponseName): Found | null {
  for (const effect of past.effects) {
    if (effect.kind !== "eventsApplied") continue;
    const request = effect.events.find(({ type, data }) => type === "approval.requested" && data.call_id === name.id);
    if (!request) continue;
    const effects = past.effects.filter((one) => one.kind !== "eventsApplied" || one.n > effect.n);
    const cursor = followFrom(request.turn_id);
    const facts = factsOf(name, request, request.data);
    return { facts, past, following: { ...past, effects, cursor }, turn: request.turn_id, handedBack: "" };
  }
  return null;
}

function endsIn({ effects }: Past, turn: string): boolean {
  return effects.some(
    (effect) =>
      effect.kind === "eventsApplied" &&
      effect.events.some(({ type, turn_id }) => turn_id === turn && TERMINAL.has(type)),
  );
}

function factsOf(name: ResponseName, { ts }: ClientEvent, request: ResponseFacts["request"]): ResponseFacts {
  return { name, createdAt: seconds(ts), previous: null, metadata: {}, background: false, leftOut: [], request };
}

/** A message that joined another turn is answered by that one. */
export function joining(stage: Stage): Pick<Following, "joined"> {
  return { joined: async () => (await stage.readTurns(2))?.effects ?? [] };
}

/** Return what follows an answer, and the request. Throws ClientError `approval_not_pending`. */
export function followAnswer(
  stage: Stage,
  past: Past | null,
  callId: string,
  { approve, reason }: Approval,
): readonly [Following, ClientEvent] {
  const { n, event } = requestIn(past, callId);
  const send = (session: Session) => session.answer(approve ? "approve" : "deny", callId, { text: reason });
  const state = { ...emptyState(stage.conversation, n), open: true, turnId: event.turn_id, approval: callId };
  return [{ state, cursor: followFrom(event.turn_id), send }, event];
}

/** Return the state of a response by the log alone. */
export function readResponse({ facts, following, handedBack }: Found): ResponseState {
  const door = openResponses(facts);
  let [cursor, state]: [TurnCursor, ResponseState] = [following.cursor, stateOf(facts)];
  if (cursor.is === "open") state = { ...state, outcome: { status: "in_progress" } };
  for (const effect of following.effects ?? []) {
    const [next, changes] = foldTurn(cursor, effect);
    cursor = next;
    for (const change of changes) [state] = door.render(state, change);
  }
  if (!handedBack) return state;
  return {
    ...state,
    outcome: { status: "failed", error: { code: handedBack, message: "No turn reads the message." } },
  };
}

/** Return why no turn reads a message, "" if one may. */
function handedBackIn({ effects }: Past, messageId: string): string {
  const found = effects.find((effect) => effect.kind === "handedBack" && effect.messageId === messageId);
  return found?.kind === "handedBack" ? found.reason : "";
}
