/** Messages: sent outside a turn, waiting during one, opening the next one, or handed back. */

import type { ClientEvent } from "../client/index.ts";
import { numberOf, rowsOf, textOf, timeOf } from "./fields.ts";
import { changed, changedLast, without } from "./share.ts";
import type { Message, MessageState, Thread, Turn } from "./thread.ts";

/**
 * Kinds of messages after which an ending turn continues. For other kinds it is unknown whether they need an answer.
 */
const GOES_ON: ReadonlySet<string> = new Set(["followup", "form", "wizard"]);

export function messageOf(n: number, event: ClientEvent): Message {
  const { data } = event;
  return {
    messageId: textOf(data, "message_id"),
    n,
    kind: textOf(data, "kind"),
    text: textOf(data, "text"),
    source: textOf(data, "source"),
    attachments: rowsOf(data, "attachments").map((file) => ({
      filename: textOf(file, "filename"),
      mime: textOf(file, "mime"),
      sizeBytes: numberOf(file, "size_bytes"),
      path: textOf(file, "path"),
    })),
    at: timeOf(event.ts),
    state: { is: "said" },
  };
}

/** Return true for a stop, which is a steer without text and draws nothing itself. */
export function isStop(message: Message): boolean {
  return message.kind === "stop" || (message.kind === "steer" && message.text === "");
}

/** Add a message that arrived during the open turn. */
export function withMessage(turn: Turn, message: Message): Turn {
  if (isStop(message)) return changed(turn, { ending: 0 });
  const goesOn = turn.ending !== null && turn.ending > 0 && GOES_ON.has(message.kind);
  const waits = { ...message, state: { is: "waiting" } as const, after: turn.rounds.length };
  return { ...turn, messages: [...turn.messages, waits], ending: goesOn ? null : turn.ending };
}

/** Move messages, by number, from the thread to the heading of a turn. */
export function takeMessages(thread: Thread, numbers: readonly number[]): [Thread, readonly Message[]] {
  if (numbers.length === 0) return [thread, []];
  const wanted = (message: Message) => numbers.includes(message.n);
  const taken = [...thread.turns.flatMap((turn) => turn.messages), ...thread.loose].filter(wanted);
  if (taken.length === 0) return [thread, []];
  const turns = thread.turns.some((turn) => turn.messages.some(wanted))
    ? thread.turns.map((turn) => changed(turn, { messages: without(turn.messages, wanted) }))
    : thread.turns;
  return [changed(thread, { turns, loose: without(thread.loose, wanted) }), inOrder(taken.map(asPrompt), numbers)];
}

function asPrompt(message: Message & { readonly after?: number }): Message {
  const { after: _, ...said } = message;
  return { ...said, state: { is: "said" } };
}

/** Return the messages in the order of these numbers. */
export function inOrder(messages: readonly Message[], numbers: readonly number[]): readonly Message[] {
  return numbers.flatMap((n) => messages.filter((message) => message.n === n));
}

/** Hand a message back; return null if the thread does not have it. */
export function handedBack(thread: Thread, event: ClientEvent): Thread | null {
  const n = numberOf(event.data, "n");
  const state: MessageState = { is: "dropped", reason: textOf(event.data, "reason") };
  const isIt = (message: Message) => message.n === n;
  const drop = <T extends Message>(message: T): T => ({ ...message, state });
  if (thread.loose.some(isIt)) return { ...thread, loose: changedLast(thread.loose, isIt, drop) };
  const has = (turn: Turn) => turn.messages.some(isIt);
  if (!thread.turns.some(has)) return null;
  const change = (turn: Turn): Turn => ({ ...turn, messages: changedLast(turn.messages, isIt, drop) });
  return { ...thread, turns: changedLast(thread.turns, has, change) };
}
