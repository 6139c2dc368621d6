/** The turns that an MCP client asks for: sent, followed to their end, and found again by the id of a task. */

import { ClientError, emptyState, type Session } from "../../../src/client/index.ts";
import type { Past, Stage } from "../../../src/door/stage.ts";
import { follow } from "../../../src/door/turn_parts.ts";
import { type Following, handOn, streamTurn } from "../../../src/door/turn_stream.ts";
import { Refusal } from "../refusal.ts";
import { ENDING } from "../route.ts";
import { MCP, outcomeIn, type TurnOutcome } from "./turn_outcome.ts";

/** How far back the message of a task is looked for. */
const TURNS = 20;

/** A message in the log, with the turn that reads it. */
export interface Asked {
  readonly past: Past;
  readonly message: string;
  readonly outcome: TurnOutcome;
  /** The time of the message. */
  readonly at: string;
}

/** How a reader ends before the turn: it leaves, or its leaving stops the turn. */
export interface Leaving {
  readonly left: AbortSignal;
  readonly stops: boolean;
}

type OnOutcome = (outcome: TurnOutcome) => void;

/** Send a message, and return what its turn comes to. Throws ClientError, ApiError. */
export async function askTurn(
  stage: Stage,
  text: string,
  { past, leaving, onOutcome }: { past: Past | null; leaving: Leaving; onOutcome: OnOutcome },
): Promise<TurnOutcome> {
  const messageId = crypto.randomUUID();
  let hasBegun = false;
  const following: Following = {
    state: emptyState(stage.conversation, past?.state.cursor),
    cursor: follow({ message: messageId }),
    send: (session: Session) => session.say(text, { messageId }),
    joined: async () => (await stage.readTurns(2))?.effects ?? [],
    onTurn: () => {
      hasBegun = true;
    },
    // A message that waits for its turn must not stop the turn of another message.
    isStop: () => leaving.left.reason !== ENDING && (hasBegun || !past?.state.open),
    signal: leaving.stops ? leaving.left : undefined,
  };
  return followTurn(stage, following, leaving.left, onOutcome);
}

/** Return the outcome of an asked turn when it has ended; a person's answer may take long. Throws as `askTurn` does. */
export async function awaitTurn(stage: Stage, { past, message, outcome }: Asked, left: AbortSignal) {
  if (outcome.is === "ended") return outcome;
  const following: Following = { ...past, cursor: follow({ message }), isPatient: true };
  return followTurn(stage, following, left, () => undefined);
}

async function followTurn(
  stage: Stage,
  following: Following,
  left: AbortSignal,
  onOutcome: OnOutcome,
): Promise<TurnOutcome> {
  let outcome = MCP.empty;
  await handOn(
    streamTurn(stage, MCP, following),
    (next) => {
      outcome = next;
      onOutcome(next);
    },
    left,
  );
  if (left.reason === ENDING && outcome.is !== "ended") throw new Refusal(503, "ending", "This server ends.");
  if (outcome.is === "failed") throw new ClientError(outcome.code, outcome.message);
  return outcome;
}

/** Return a message of the newest turns with its turn. Throws ClientError `not_found`, ApiError. */
export async function findAsked(stage: Stage, message: string): Promise<Asked> {
  for (const turns of [1, TURNS]) {
    const past = await stage.readTurns(turns);
    const asked = past && askedIn(past, message);
    if (asked) return asked;
  }
  throw new ClientError("not_found", "no recent turn belongs to this task");
}

function askedIn(past: Past, message: string): Asked | null {
  const events = past.effects.flatMap((effect) => (effect.kind === "eventsApplied" ? effect.events : []));
  const sent = events.find(({ type, data }) => type === "chat.conversation.accepted" && data.message_id === message);
  if (!sent) return null;
  const own = outcomeIn(past, follow({ message }));
  // A message may join a turn that is open, which then has its answer.
  const joined = own.turn ? own : outcomeIn(past, follow({ turn: sent.turn_id }));
  return { past, message, outcome: joined.is === "ended" ? joined : own, at: sent.ts };
}
