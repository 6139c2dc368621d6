/**
 * Changes of a turn as chunks of the AI SDK's UI message stream.
 *
 * A turn is one assistant message, a round is one of its steps. Source: `ai` 7.0, src/ui-message-stream.
 */

import type { FinishReason, UIMessageChunk } from "ai";
import type { ClientEvent } from "../../src/client/index.ts";
import { type Change, growth, type Part } from "../../src/door/turn_parts.ts";
import type { Door } from "../../src/door/turn_stream.ts";
import { FILE, userParts } from "./user_message.ts";

/** What a message knows about its turn: `n` is the position of a client that has the message. */
export interface TurnMetadata {
  readonly turn?: string;
  readonly n?: number;
  readonly reason?: string;
  readonly code?: string;
  readonly retryable?: boolean;
  readonly followups?: readonly string[];
}

type Chunks = readonly UIMessageChunk[];

const FINISHED: Readonly<Record<string, FinishReason>> = { complete: "stop", steer: "stop", token_limit: "length" };

/** A step is open: the door's only state. */
export const AI_SDK: Door<UIMessageChunk, boolean> = {
  empty: false,
  render(isOpen, change) {
    const end: Chunks = isOpen ? [{ type: "finish-step" }] : [];
    if (change.do === "step") return [true, [...end, { type: "start-step" }]];
    if (change.do === "pause") return [false, [...end, finished("tool-calls", { n: change.n })]];
    if (change.do === "end") return [false, [...end, ...ended(change.event, change.n)]];
    return [isOpen, rendered(change)];
  },
  fail: (_, { code, message }) => [{ type: "error", errorText: `${code}: ${message}` }],
};

function rendered(change: Change): Chunks {
  switch (change.do) {
    case "begin":
      return [started(change.event.turn_id, change.n)];
    case "grow": {
      const { part, added, isNew } = change;
      const name = part.is === "text" ? "text" : "reasoning";
      const start: Chunks = isNew ? [{ type: `${name}-start`, id: part.id }] : [];
      return added ? [...start, { type: `${name}-delta`, id: part.id, delta: added }] : start;
    }
    case "close":
      return [{ type: change.part.is === "text" ? "text-end" : "reasoning-end", id: change.part.id }];
    case "place":
      return placed(change.part.event);
    case "redraw":
      return [
        { type: "reset-step" },
        ...change.parts.flatMap((part: Part) => growth(undefined, part).flatMap(rendered)),
      ];
    case "show": {
      const { effect } = change;
      if (!("event" in effect)) return [{ type: "data-stepline-lane", data: effect, transient: true }];
      return [{ type: "data-stepline-event", data: { n: effect.n, ...effect.event }, transient: true }];
    }
    default:
      return [];
  }
}

/** Return the chunks of an event with a place in the message. */
function placed({ type, data }: ClientEvent): Chunks {
  const toolCallId = String(data.call_id);
  const items = (data.items ?? []) as readonly Readonly<Record<string, unknown>>[];
  switch (type) {
    case "chat.conversation.accepted":
      return [{ type: "steering-message", id: String(data.message_id), parts: userParts(data) }];
    case "react.tool.call":
      return [called(toolCallId, String(data.tool_id), data.params)];
    case "react.tool.result":
      return [resultOf(toolCallId, data)];
    case "approval.requested":
      return [{ type: "tool-approval-request", approvalId: toolCallId, toolCallId, approvalDescriptor: data }];
    case "approval.answered":
      return answered(toolCallId, data);
    case "react.plan":
      return [{ type: "data-stepline-plan", id: String(data.plan_id), data }];
    case "chat.files":
      return items.map((item) => ({
        type: "file",
        url: FILE + String(item.logical_path),
        mediaType: String(item.mime),
        providerMetadata: { stepline: { filename: String(item.filename), size_bytes: Number(item.size_bytes) } },
      }));
    default:
      return items.map((item) => sourceOf(String(item.sid), String(item.title), String(item.url), item.path));
  }
}

/** A call runs on the stage: the page is not asked for its result. */
function called(toolCallId: string, toolName: string, input: unknown): UIMessageChunk {
  return { type: "tool-input-available", toolCallId, toolName, input, dynamic: true, providerExecuted: true };
}

function resultOf(toolCallId: string, { status, code, preview, paths }: ClientEvent["data"]): UIMessageChunk {
  if (code === "denied" || code === "approval_expired") return { type: "tool-output-denied", toolCallId };
  if (status === "ok") return { type: "tool-output-available", toolCallId, output: { text: preview, paths } };
  return { type: "tool-output-error", toolCallId, errorText: String(code || status) };
}

/** An edited call is denied, and the call that runs instead follows it. */
function answered(approvalId: string, data: ClientEvent["data"]): Chunks {
  const { verdict, text, edited_call_id: editedId, params, tool_id: toolName } = data;
  const approved = verdict === "approved";
  const reason = text ? String(text) : approved ? "" : String(verdict);
  const response: UIMessageChunk = { type: "tool-approval-response", approvalId, approved, ...(reason && { reason }) };
  if (!editedId) return [response];
  const call = called(String(editedId), String(toolName), params);
  return [response, { type: "tool-output-denied", toolCallId: approvalId }, call];
}

function sourceOf(sourceId: string, title: string, url: string, path: unknown): UIMessageChunk {
  if (url) return { type: "source-url", sourceId, url, title };
  return { type: "source-document", sourceId, title, mediaType: "text/markdown", filename: String(path) };
}

function ended({ type, data }: ClientEvent, n: number): Chunks {
  if (type === "chat.error") {
    const metadata: TurnMetadata = { n, code: String(data.code), retryable: data.retryable === true };
    return [
      { type: "message-metadata", messageMetadata: metadata },
      { type: "error", errorText: `${data.code}: ${data.error}` },
    ];
  }
  const reason = String(data.reason);
  const metadata: TurnMetadata = { n, reason, followups: (data.followups ?? []) as readonly string[] };
  const end = finished(FINISHED[reason] ?? "other", metadata);
  return reason === "stop" ? [{ type: "abort", reason }, end] : [end];
}

function started(turn: string, n: number): UIMessageChunk {
  const messageMetadata: TurnMetadata = { turn, n };
  return { type: "start", messageId: turn, messageMetadata };
}

function finished(finishReason: FinishReason, messageMetadata: TurnMetadata): UIMessageChunk {
  return { type: "finish", finishReason, messageMetadata };
}
