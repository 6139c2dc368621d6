/** The messages of a run as a client of AG-UI has them, and the events that add calls, results and plans to them. */

import { type AssistantMessage, type Event, EventType, type Message, type Metadata } from "@ag-ui/client";
import type { ClientEvent } from "../../src/client/index.ts";
import type { TextPart } from "../../src/door/turn_parts.ts";
import { PLAN, type TurnState } from "./state.ts";

export interface RunMessages {
  /** The messages before the current step, and those of the step. */
  readonly before: readonly Message[];
  readonly step: readonly Message[];
  /** The name of the open step, "" for none. */
  readonly name: string;
  readonly steps: number;
  /** The texts that are being written. */
  readonly open: ReadonlyMap<string, TextPart>;
  readonly turn: TurnState;
}

export type Drawn = readonly [RunMessages, readonly Event[]];

/** Return the snapshots after which a client has exactly these messages, and those of `gone` no more. */
export function snapshots(messages: readonly Message[], gone: readonly Message[]): readonly Event[] {
  const kept = messages.filter(isShared);
  // A client keeps reasoning and activities that a snapshot leaves out. As messages of the assistant they can go.
  const named = gone
    .filter((message) => !isShared(message))
    .map(({ id }): Message => ({ id, role: "assistant", content: "" }));
  const snapshot = (all: readonly Message[]): Event => ({ type: EventType.MESSAGES_SNAPSHOT, messages: [...all] });
  return named.length ? [snapshot([...kept, ...named]), snapshot(kept)] : [snapshot(kept)];
}

/** Return the snapshot that adds all of these messages, reasoning and activities included, and removes no activity. */
export function wholeSnapshot(messages: readonly Message[]): Event {
  const metadata = { "@ag-ui/client": { authoritativeActivityTypes: [] } };
  return { type: EventType.MESSAGES_SNAPSHOT, messages: [...messages], metadata };
}

function isShared({ role }: Message): boolean {
  return role !== "reasoning" && role !== "activity";
}

/** Place an event of the turn, such as a call or its result. */
export function place(state: RunMessages, { type, data }: ClientEvent, metadata: Metadata): Drawn {
  const id = String(data.call_id ?? data.message_id ?? data.plan_id);
  const result = (content: string) => {
    const message: Message = { id: `${id}.result`, role: "tool", toolCallId: id, content, metadata };
    return after(state, id, message, [
      { type: EventType.TOOL_CALL_RESULT, messageId: message.id, toolCallId: id, content, metadata },
    ]);
  };
  switch (type) {
    case "chat.conversation.accepted":
      return add(state, { id, role: "user", content: String(data.text), metadata }, [
        { type: EventType.TEXT_MESSAGE_START, messageId: id, role: "user", metadata },
        { type: EventType.TEXT_MESSAGE_CONTENT, messageId: id, delta: String(data.text) },
        { type: EventType.TEXT_MESSAGE_END, messageId: id },
      ]);
    case "react.tool.call":
      return call(state, id, String(data.tool_id), data.params, metadata);
    case "react.tool.result":
      return result(String(data.status === "ok" ? data.preview : (data.code ?? data.status)));
    case "approval.answered": {
      if (!data.edited_call_id) return [state, [custom(type, data, metadata)]];
      const [answered, events] = result("edited");
      const [next, more] = call(answered, String(data.edited_call_id), String(data.tool_id), data.params, metadata);
      return [next, [...events, ...more]];
    }
    case "react.plan":
      return plan(state, id, data, metadata);
    default:
      return [state, [custom(type, data, metadata)]];
  }
}

function call(state: RunMessages, id: string, name: string, params: unknown, metadata: Metadata): Drawn {
  const args = JSON.stringify(params ?? {});
  const calls = [{ id, type: "function" as const, function: { name, arguments: args }, metadata }];
  const message: AssistantMessage = { id, role: "assistant", toolCalls: calls };
  return add(state, message, [
    { type: EventType.TOOL_CALL_START, toolCallId: id, toolCallName: name, metadata },
    { type: EventType.TOOL_CALL_ARGS, toolCallId: id, delta: args },
    { type: EventType.TOOL_CALL_END, toolCallId: id },
  ]);
}

/** Show a plan where it was first shown. */
function plan(state: RunMessages, id: string, content: Record<string, unknown>, metadata: Metadata): Drawn {
  const activityType = PLAN;
  const message: Message = { id, role: "activity", activityType, content, metadata };
  const event: Event = { type: EventType.ACTIVITY_SNAPSHOT, messageId: id, activityType, content, metadata };
  const isKnown = [...state.before, ...state.step].some((one) => one.id === id);
  if (!isKnown) return add(state, message, [event]);
  const put = (all: readonly Message[]) => all.map((one) => (one.id === id ? message : one));
  return [{ ...state, before: put(state.before), step: put(state.step) }, [event]];
}

function add(state: RunMessages, message: Message, events: readonly Event[]): Drawn {
  return [{ ...state, step: [...state.step, message] }, events];
}

/** Add the result of a call after its message. */
function after(state: RunMessages, id: string, message: Message, events: readonly Event[]): Drawn {
  const insert = (all: readonly Message[]) => all.flatMap((one) => (one.id === id ? [one, message] : [one]));
  return [{ ...state, before: insert(state.before), step: insert(state.step) }, events];
}

function custom(name: string, value: unknown, metadata: Metadata): Event {
  return { type: EventType.CUSTOM, name, value, metadata };
}

/** Return the outcome of a run that waits for a person. */
export function interruptOf({ data, turn_id: turn }: ClientEvent, n: number): object {
  const { call_id: id, tool_id: tool, until, params, rule, editable } = data as Readonly<Record<string, string>>;
  const metadata = { stepline: { n, turn, params, rule, editable } };
  const reason = "tool_approval";
  const interrupt = {
    id,
    reason,
    toolCallId: id,
    message: `May ${tool} run?`,
    ...(until && { expiresAt: until }),
    metadata,
  };
  return { outcome: { type: "interrupt", interrupts: [interrupt] } };
}

/** Return the end of a run. A stop cancels it. */
export function ended(
  { type, data }: ClientEvent,
  run: { threadId: string; runId: string },
  metadata: Metadata,
): Event {
  if (type === "chat.error") {
    return { type: EventType.RUN_ERROR, code: String(data.code), message: String(data.error), metadata };
  }
  const { answer, reason, followups = [] } = data;
  if (reason === "stop") return { type: EventType.RUN_FINISHED, ...run, outcome: { type: "cancelled" }, metadata };
  const result = { answer, reason, followups };
  return { type: EventType.RUN_FINISHED, ...run, outcome: { type: "success" }, result, metadata };
}

/** The sequence number: the batch of an event, and for a text the batch that opened its stream. */
export function seq(n: number): Metadata {
  return { stepline: { n } };
}

export function seqOf({ id }: TextPart): Metadata {
  return seq(Number.parseInt(id, 10) || 0);
}
