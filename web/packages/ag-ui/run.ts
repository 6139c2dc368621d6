/** How a run begins: what it sends to the stage, and the events before those of its turn. */

import {
  type ContentPart,
  type Event,
  EventType,
  type Message,
  type ResumeEntry,
  type RunAgentInput,
} from "@ag-ui/client";
import { ClientError, type ClientState, type Effect, emptyState, type Session } from "../../src/client/index.ts";
import { followMessage } from "../../src/door/sent.ts";
import { checkPosition, type Stage } from "../../src/door/stage.ts";
import { foldTurn, follow, followFrom } from "../../src/door/turn_parts.ts";
import type { Door, Following } from "../../src/door/turn_stream.ts";
import { decodeBase64 } from "../../src/door/upload.ts";
import { agUi } from "./mapping.ts";
import { type RunMessages, snapshots } from "./placing.ts";
import { NO_TURN, PLAN, stateSnapshot, type TurnState, waitingState } from "./state.ts";

/** How an interrupt is answered: a call that may run, perhaps with other parameters, or that may not, with a reason. */
export interface Verdict {
  readonly approved: boolean;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly text?: string;
}

/** A run that has begun: `following` is null if no turn is open. */
export interface Begun {
  readonly following: Following | null;
  readonly door: Door<Event, RunMessages>;
  readonly first: readonly Event[];
}

/** Where a turn waits for an answer. */
export interface Waiting {
  readonly n: number;
  readonly turn: string;
}

/** Return the answer to an interrupt that the run sends, if it sends one. Throws ClientError `bad_message`. */
export function answerOf(input: RunAgentInput): ResumeEntry | null {
  const [entry, further] = input.resume ?? [];
  if (further) throw new ClientError("bad_message", "a turn waits for one answer at a time");
  return entry ?? null;
}

/** Send the last message of the user after batch `n`, -1 for the end of the conversation. Throws ClientError, ApiError. */
export async function beginMessage(
  stage: Stage,
  input: RunAgentInput,
  n: number,
  signal?: AbortSignal,
): Promise<Begun> {
  const message = input.messages.at(-1);
  if (message?.role !== "user") throw new ClientError("unsupported_message", "a message of the user is missing");
  const [text, uploads] = await readContent(stage, message.content);
  const send = (session: Session) => session.say(text, { messageId: message.id, uploads });
  const door = agUi(input.threadId, input.runId, input.messages);
  if (n < 0) return { following: await followMessage(stage, message.id, text, send, signal), door, first: [] };
  const following = { state: emptyState(stage.conversation, n), cursor: follow({ message: message.id }), send };
  return { following, door, first: [] };
}

/** Answer a request for an approval. The messages are restated, since they have its call. Throws ClientError. */
export function beginAnswer(stage: Stage, input: RunAgentInput, entry: ResumeEntry, { n, turn }: Waiting): Begun {
  const verdict = entry.status === "resolved" ? (entry.payload as Verdict | null | undefined) : null;
  const { approved, params, text = "" } = verdict ?? { approved: false };
  if (typeof approved !== "boolean") {
    throw new ClientError("bad_message", "the answer to an interrupt has no `approved`");
  }
  const action = approved ? (params ? "edit" : "approve") : "deny";
  const id = entry.interruptId;
  const send = (session: Session) => session.answer(action, id, { params: params ?? {}, text });
  const past = emptyState(stage.conversation, checkPosition(n));
  const state: ClientState = { ...past, open: true, turnId: turn, approval: id };
  const door = agUi(input.threadId, input.runId, input.messages, waitingState(turn, input.state));
  return { following: { state, cursor: followFrom(turn), send }, door, first: snapshots(input.messages, []) };
}

/** Restate the newest turns to a client with the messages `known`, and continue the open turn. Throws ApiError. */
export async function beginConnect(
  stage: Stage,
  input: RunAgentInput,
  known: readonly Message[],
  signal?: AbortSignal,
): Promise<Begun> {
  const past = await stage.readTurns(20, signal);
  const { effects = [], state = emptyState(stage.conversation) } = past ?? {};
  const turn = state.open ? state.turnId : "";
  const [before, latest, shown] = readTurns(effects, turn);
  const messages: Event = { type: EventType.MESSAGES_SNAPSHOT, messages: before };
  const gone = new Map([...plansIn(effects), ...known].map((message) => [message.id, message]));
  const first = [...snapshots([], [...gone.values()]), messages, ...shown, ...(turn ? [] : [stateSnapshot(latest)])];
  const door = agUi(input.threadId, input.runId, before);
  return { following: turn ? { effects, state, cursor: follow({ turn }) } : null, door, first };
}

/** Return the plans of these turns, which a client may have: it sends no activities with its messages. */
function plansIn(effects: readonly Effect[]): readonly Message[] {
  const events = effects.flatMap((effect) => (effect.kind === "eventsApplied" ? effect.events : []));
  const plans = events.filter(({ type }) => type === "react.plan");
  return plans.map(({ data }) => ({ id: String(data.plan_id), role: "activity", activityType: PLAN, content: data }));
}

/** Read a message's text, and upload its files. */
async function readContent(
  stage: Stage,
  content: string | readonly ContentPart[],
): Promise<[text: string, uploads: readonly string[]]> {
  if (typeof content === "string") return [content, []];
  const texts: string[] = [];
  const uploads: Promise<string>[] = [];
  for (const part of content) {
    if (part.type === "text") texts.push(part.text);
    else if (part.source.type === "data") uploads.push(upload(stage, part.source.value, part.metadata));
    else throw new ClientError("unsupported_part", `a message cannot have this part: ${part.type} by its address`);
  }
  return [texts.join("\n\n"), await Promise.all(uploads)];
}

function upload(stage: Stage, base64: string, metadata: unknown): Promise<string> {
  const { filename = "file" } = (metadata ?? {}) as { filename?: string };
  return stage.upload(new Blob([decodeBase64(base64)]), filename);
}

/**
 * Return the messages of past turns up to the open one, each turn's prompts before what it said, the last state, and the
 * files and sources of these turns, which are no messages.
 */
function readTurns(
  effects: readonly Effect[],
  open: string,
): [messages: Message[], turn: TurnState, shown: readonly Event[]] {
  const messages: Message[] = [];
  const shown: Event[] = [];
  let latest = NO_TURN;
  const accepted = new Map<number, Message>();
  for (const effect of effects) {
    if (effect.kind !== "eventsApplied") continue;
    for (const { type, data, turn_id: turn } of effect.events) {
      if (type === "chat.conversation.accepted") {
        accepted.set(effect.n, { id: String(data.message_id), role: "user", content: String(data.text) });
      }
      if (type !== "chat.start") continue;
      messages.push(...(data.prompts as readonly number[]).flatMap((n) => accepted.get(n) ?? []));
      if (turn === open) continue;
      const [read, events] = readTurn(effects, turn);
      messages.push(...read.before, ...read.step);
      shown.push(...events.filter((event) => event.type === EventType.CUSTOM && FOUND.has(event.name)));
      latest = read.turn;
    }
  }
  return [messages, latest, shown];
}

const FOUND = new Set(["chat.files", "chat.citations"]);

function readTurn(effects: readonly Effect[], turn: string): [RunMessages, Event[]] {
  const door = agUi("", "", []);
  let [cursor, state] = [follow({ turn }), door.empty];
  const events: Event[] = [];
  for (const effect of effects) {
    const [next, changes] = foldTurn(cursor, effect);
    cursor = next;
    for (const change of changes) {
      const [rendered, more] = door.render(state, change);
      state = rendered;
      events.push(...more);
    }
  }
  return [state, events];
}
