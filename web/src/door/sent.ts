/** Where a client that has read nothing continues, after it has sent a message. */

import { ClientError, type ClientEvent, emptyState, type Session } from "../client/index.ts";
import type { Past, Stage } from "./stage.ts";
import { type EventPart, foldTurn, follow, type TurnCursor } from "./turn_parts.ts";
import type { Following } from "./turn_stream.ts";

/**
 * Return what follows a message: the turn from its beginning if the log has the message already, else what comes after
 * `send` at the end of the conversation. So a request that is repeated after a lost connection shows the same turn.
 */
export async function followMessage(
  stage: Stage,
  messageId: string,
  text: string,
  send: (session: Session) => string,
  signal?: AbortSignal,
): Promise<Following> {
  return followIn(stage, await stage.readTurns(1, signal), messageId, text, send);
}

/** Return what `followMessage` does, for a conversation whose newest turn is `past`. */
export function followIn(
  stage: Stage,
  past: Past | null,
  messageId: string,
  text: string,
  send: (session: Session) => string,
): Following {
  const cursor = follow({ message: messageId });
  const sent = past && acceptedIn(past, messageId);
  if (sent?.data.text !== text) return { state: emptyState(stage.conversation, past?.state.cursor), cursor, send };
  const joined = past?.state.ended === sent.turn_id && foldAll(cursor, past).is === "before";
  return { ...(past as Past), cursor: joined ? follow({ turn: sent.turn_id }) : cursor };
}

/** Return the request that the turn waits for, and its batch. Throws ClientError `approval_not_pending`. */
export function requestIn(past: Past | null, callId: string): EventPart {
  for (const effect of past?.effects ?? []) {
    if (effect.kind !== "eventsApplied") continue;
    const event = effect.events.find(({ type, data }) => type === "approval.requested" && data.call_id === callId);
    if (event && past?.state.approval === callId) return { is: "event", n: effect.n, event };
  }
  throw new ClientError("approval_not_pending", "no call waits for this answer");
}

/** Return the event that accepted a message, if these turns have it. */
export function acceptedIn({ effects }: Past, messageId: string): ClientEvent | undefined {
  const events = effects.flatMap((effect) => (effect.kind === "eventsApplied" ? effect.events : []));
  return events.find(({ type, data }) => type === "chat.conversation.accepted" && data.message_id === messageId);
}

function foldAll(cursor: TurnCursor, { effects }: Past): TurnCursor {
  return effects.reduce((folded, effect) => foldTurn(folded, effect)[0], cursor);
}
