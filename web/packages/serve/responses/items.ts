/**
 * The items of a response: texts, calls, requests for approvals, plans and files.
 *
 * Calls have OpenAI's items for tools that the provider runs, as if all were on one MCP server: its clients show them and
 * answer their approval requests, and run a `function_call` themselves. The items `stepline:…` are extensions.
 * Source: openresponses.org/specification, "Extending Items"; `openai` 3.57, types/responses.
 */

import type { ClientEvent } from "../../../src/client/index.ts";
import type { TextPart } from "../../../src/door/turn_parts.ts";
import { itemId } from "./response_id.ts";

export type Status = "in_progress" | "completed" | "incomplete" | "failed";

export type Item = Readonly<Record<string, unknown>> & {
  readonly type: string;
  readonly id: string;
  readonly status: Status;
};

export interface Annotation {
  readonly type: "url_citation";
  readonly start_index: number;
  readonly end_index: number;
  readonly url: string;
  readonly title: string;
}

type Data = ClientEvent["data"];

/** The tools of the agent, as one server. */
const SERVER = "stepline";

/** Return the item of a text; one that has only begun has no content yet. */
export function textItem(
  id: string,
  part: TextPart,
  status: Status,
  annotations: readonly Annotation[] = [],
  hasBegun = true,
): Item {
  if (part.is === "thinking") {
    return { type: "reasoning", id, status, summary: hasBegun ? [summaryPart(part.text)] : [] };
  }
  const content = hasBegun ? [textContent(part.text, annotations)] : [];
  const phase = isAnswer(part) ? "final_answer" : "commentary";
  return { type: "message", id, status, role: "assistant", phase, content };
}

export function textContent(text: string, annotations: readonly Annotation[]): object {
  return { type: "output_text", text, annotations, logprobs: [] };
}

export function summaryPart(text: string): object {
  return { type: "summary_text", text };
}

/** An answer may be cited after it is complete. */
export function isAnswer({ is, id }: TextPart): boolean {
  return is === "text" && !id.includes(".notes.");
}

export function callId(id: unknown): string {
  return `mcp_${id}`;
}

export function callItem(id: unknown, tool: unknown, params: unknown, approval: string | null = null): Item {
  return {
    type: "mcp_call",
    id: callId(id),
    status: "in_progress",
    server_label: SERVER,
    name: String(tool),
    arguments: JSON.stringify(params ?? {}),
    approval_request_id: approval,
    output: null,
    error: null,
  };
}

/** Return the item of a call after its result: its error is our code. */
export function calledItem(call: Item, { status, code, preview }: Data): Item {
  if (status === "ok") return { ...call, status: "completed", output: String(preview) };
  const content = [{ type: "text", text: String(code || status) }];
  return { ...call, status: "failed", error: { type: "mcp_tool_execution_error", content } };
}

export function approvalId(conversation: string, call: unknown): string {
  return itemId("mcpr", conversation, String(call));
}

export function approvalItem(conversation: string, { call_id: call, tool_id: tool, params }: Data): Item {
  return {
    type: "mcp_approval_request",
    id: approvalId(conversation, call),
    status: "completed",
    server_label: SERVER,
    name: String(tool),
    arguments: JSON.stringify(params ?? {}),
  };
}

/** Return the item of batch `n` for a plan: an item is never changed, so each version has its own. */
export function planItem(n: number, data: Data): Item {
  return { ...data, type: "stepline:plan", id: `plan_${n}`, status: "completed" };
}

export function fileItems(conversation: string, { items }: Data): readonly Item[] {
  return (items as readonly Data[]).map(({ logical_path: path, filename, mime, size_bytes }) => ({
    type: "stepline:file",
    id: itemId("file", conversation, String(path)),
    status: "completed",
    filename,
    mime,
    size_bytes,
  }));
}

/** Return the places where an answer cites sources. Its citations are links with a title such as `S:1`. */
export function annotationsOf(text: string, { items }: Data): readonly Annotation[] {
  return (items as readonly Data[]).flatMap(({ sid, title, url, path }) => {
    const link = new RegExp(`\\[(?:[^\\][\\\\]|\\\\.)*\\]\\([^\\s)]* "S:${Number(sid)}"\\)`, "g");
    return [...text.matchAll(link)].map(({ 0: found, index }): Annotation => {
      const start = characters(text.slice(0, index));
      const end = start + characters(found);
      const address = String(url || path);
      return { type: "url_citation", start_index: start, end_index: end, url: address, title: String(title) };
    });
  });
}

function characters(text: string): number {
  return [...text].length;
}
