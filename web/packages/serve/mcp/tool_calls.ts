/** What the tools and the resources of the MCP server do, as one user of the stage. */

import type { CallToolResult, ReadResourceResult } from "@modelcontextprotocol/server";
import type { z } from "zod";
import { ClientError } from "../../../src/client/index.ts";
import type { Stage } from "../../../src/door/stage.ts";
import { follow } from "../../../src/door/turn_parts.ts";
import { Refusal } from "../refusal.ts";
import { approvalOf, dataResult, linkTo, parseFile } from "./tool_result.ts";
import type { PARAMS } from "./tool_table.ts";
import { outcomeIn, outcomesIn } from "./turn_outcome.ts";

type Params<Name extends keyof typeof PARAMS> = z.infer<(typeof PARAMS)[Name]>;

const READ_MAX_BYTES = 8 * 2 ** 20;

/** Return what a conversation does, and its last answer. Throws ClientError `not_found`, ApiError. */
export async function statusResult(stage: Stage): Promise<CallToolResult> {
  const past = await stage.readTurns(2);
  if (!past) throw new ClientError("not_found", "no such conversation");
  const { open, turnId } = past.state;
  const now = outcomeIn(past, follow({ turn: turnId }));
  const last = outcomesIn(past).findLast(({ is }) => is === "ended");
  return dataResult({
    conversation: stage.conversation,
    turn: turnId,
    open,
    plan: now.plan && { steps: now.plan.steps, status: now.plan.status },
    approval: now.request && approvalOf(now.request),
    last: last ? { turn: last.turn, answer: last.answer, reason: last.reason, code: last.code } : null,
  });
}

/** Return a page of the list of files, or a link to one. Throws ApiError. */
export async function filesResult(stage: Stage, { path, after }: Params<"files">): Promise<CallToolResult> {
  if (path) {
    const { url, mime, size_bytes: bytes, expires_in_s } = await stage.link(path);
    const name = path.split("/").at(-1) ?? path;
    const link = { type: "resource_link", uri: url, name, mimeType: mime, size: bytes } as const;
    return dataResult({ path, url, expires_in_s }, [link]);
  }
  const { items, next } = await stage.files(after);
  const files = items.map(({ logical_path, filename, mime, size_bytes }) => ({
    path: logical_path,
    name: filename,
    mime,
    bytes: size_bytes,
  }));
  return dataResult(
    { conversation: stage.conversation, files, next },
    files.map((file) => linkTo(stage.conversation, file)),
  );
}

/** Answer a request for an approval. Throws ClientError with the code of a refusal. */
export async function answerRequest(
  stage: Stage,
  { call_id: callId, verdict, reason = "", params = {} }: Params<"answer">,
): Promise<CallToolResult> {
  await stage.send((session) => session.answer(verdict, callId, { text: reason, params }));
  return dataResult({ conversation: stage.conversation, call_id: callId, verdict });
}

/** Return the content of a file. Throws ApiError, ClientError `bad_path`, Refusal `content_too_large`. */
export async function readFile(stageOf: (conversation: string) => Stage, uri: string): Promise<ReadResourceResult> {
  const [conversation, path] = parseFile(uri);
  const { url, mime: mimeType, size_bytes: bytes } = await stageOf(conversation).link(path);
  if (bytes > READ_MAX_BYTES) throw new Refusal(413, "content_too_large", "The tool `files` returns a link to it.");
  const answer = await fetch(url);
  if (!answer.ok) throw new Refusal(502, "api_unreachable", "The file cannot be read now.");
  const content = Buffer.from(await answer.arrayBuffer());
  const text = /^text\/|[/+](json|xml)\b/.test(mimeType) ? decode(content) : null;
  return { contents: [{ uri, mimeType, ...(text === null ? { blob: content.toString("base64") } : { text }) }] };
}

/** Return the text of bytes; null if they are not UTF-8. */
function decode(content: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
