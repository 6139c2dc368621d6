/** Results of tools: text for a model, the same as data, and files as links to resources. */

import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/server";
import { ClientError } from "../../../src/client/index.ts";
import type { TurnFile, TurnOutcome } from "./turn_outcome.ts";

type Structured = Readonly<Record<string, unknown>>;

/** Return the result of a turn that has ended, or that waits for a person. */
export function turnResult(conversation: string, outcome: TurnOutcome): CallToolResult {
  const { turn, answer, code, message, request, reason, files } = outcome;
  const status =
    outcome.is === "waits" ? "waits_for_approval" : code ? "failed" : reason === "stop" ? "stopped" : "done";
  const approval = request && approvalOf(request);
  const names = { conversation, turn, status, ...(approval && { approval }), ...(code && { code }) };
  const text = code ? `${code}: ${message}` : approval ? outcome.doing : answer;
  return {
    content: [
      { type: "text", text },
      ...[...files.values()].map((file) => linkTo(conversation, file)),
      // Clients that show a model no structured content would otherwise not know how to continue.
      { type: "text", text: JSON.stringify(names) },
    ],
    structuredContent: { ...names, answer },
    ...(code && { isError: true }),
  };
}

/** Return data as a result, with the links to files. */
export function dataResult(data: Structured, links: readonly ContentBlock[] = []): CallToolResult {
  return { content: [{ type: "text", text: JSON.stringify(data) }, ...links], structuredContent: { ...data } };
}

/** Return the fields of a request for an approval that a client needs to answer it. */
export function approvalOf({ call_id, tool_id, params, code, rule, editable, until }: Structured): Structured {
  return { call_id, tool_id, params, code, rule, editable, until };
}

const FILE = /^stepline:([^/]+)\/([^/]+)$/;

export const FILE_TEMPLATE = "stepline:{conversation}/{path}";

export function linkTo(conversation: string, { path, name, mime, bytes }: TurnFile): ContentBlock {
  const uri = `stepline:${conversation}/${encodeURIComponent(path)}`;
  return { type: "resource_link", uri, name, mimeType: mime, size: bytes };
}

/** Return the conversation and the path in a file's address. Throws ClientError `bad_path`. */
export function parseFile(uri: string): readonly [conversation: string, path: string] {
  const [, conversation, path] = FILE.exec(uri) ?? [];
  try {
    if (conversation && path) return [conversation, decodeURIComponent(path)];
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
  }
  throw new ClientError("bad_path", "this is no file of a conversation");
}
