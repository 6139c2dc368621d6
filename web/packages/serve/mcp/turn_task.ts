/**
 * Turns as MCP tasks, in both revisions that have them. The server keeps none: the id of a task names a conversation
 * and a message in its log.
 *
 *     2025-11-25   the client requests a task; `tasks/result` waits for its end
 *     2026-07-28   the server makes one for each client that declares the extension; `tasks/get` has its result
 *
 * A turn that waits for an approval is `working`: a person answers, not the client.
 * Source: modelcontextprotocol.io, "Tasks" of 2025-11-25; github.com/modelcontextprotocol/ext-tasks, 2026-07-28.
 */

import { ClientError } from "../../../src/client/index.ts";
import type { Stage } from "../../../src/door/stage.ts";
import { type Asked, awaitTurn, findAsked } from "./asked_turn.ts";
import { turnResult } from "./tool_result.ts";
import type { TurnOutcome } from "./turn_outcome.ts";

export type Era = "legacy" | "modern";

export const TASKS = "io.modelcontextprotocol/tasks";
const RELATED = "io.modelcontextprotocol/related-task";
const POLL_MS = 1000;

type StageOf = (conversation: string) => Stage;

interface About {
  readonly stage: Stage;
  readonly message: string;
}

/** Send a message, and return its task. Throws ClientError, ApiError. */
export async function createTask(stage: Stage, text: string, era: Era): Promise<object> {
  const message = crypto.randomUUID();
  await stage.send((session) => session.say(text, { messageId: message }));
  const at = new Date().toISOString();
  const task = render(`${stage.conversation}.${message}`, { status: "working", words: "", createdAt: at, at }, era);
  // The package refuses a task of 2025-11-25 that has no content beside it.
  return era === "modern" ? { resultType: "task", ...task } : { task, content: [] };
}

/** Return the state of a task. Throws ClientError `not_found`, ApiError. */
export async function getTask(stageOf: StageOf, id: string, era: Era): Promise<object> {
  const { stage, message } = aboutTask(stageOf, id);
  return renderAsked(id, stage, await findAsked(stage, message), era);
}

/** Return the result of a task at its end. Throws as `getTask` does. */
export async function awaitTask(stageOf: StageOf, id: string, left: AbortSignal): Promise<object> {
  const { stage, message } = aboutTask(stageOf, id);
  const outcome = await awaitTurn(stage, await findAsked(stage, message), left);
  return { ...turnResult(stage.conversation, outcome), _meta: { [RELATED]: { taskId: id } } };
}

/** Stop the turn of a task, and return the task at its end. Throws as `getTask` does, and `turn_closed`. */
export async function cancelTask(stageOf: StageOf, id: string, era: Era, left: AbortSignal): Promise<object> {
  const { stage, message } = aboutTask(stageOf, id);
  const asked = await findAsked(stage, message);
  const { is, turn } = asked.outcome;
  if (is === "ended" && era === "legacy") throw new ClientError("turn_closed", "the task has ended");
  if (is !== "ended" && turn && turn === asked.past.state.turnId) await stage.send((session) => session.stop());
  if (era === "modern") return {};
  const outcome = turn ? await awaitTurn(stage, asked, left) : asked.outcome;
  return renderAsked(id, stage, { ...asked, outcome }, era);
}

/** Return what the id of a task names. Throws ClientError `not_found`. */
function aboutTask(stageOf: StageOf, id: string): About {
  const [, conversation, message] = /^([\w-]+)\.([\w-]+)$/.exec(id) ?? [];
  if (!conversation || !message) throw new ClientError("not_found", "this is no task");
  return { stage: stageOf(conversation), message };
}

function renderAsked(id: string, stage: Stage, { outcome, at: createdAt }: Asked, era: Era): object {
  const status = statusOf(outcome, era);
  const task = render(id, { status, words: outcome.message || outcome.doing, createdAt, at: outcome.at }, era);
  return era === "modern" && status === "completed"
    ? { ...task, result: turnResult(stage.conversation, outcome) }
    : task;
}

function statusOf({ is, code, reason }: TurnOutcome, era: Era): string {
  if (is !== "ended") return "working";
  if (code) return era === "legacy" ? "failed" : "completed"; // there it says that the result is an error
  return reason === "stop" ? "cancelled" : "completed";
}

function render(
  taskId: string,
  { status, words, createdAt, at }: Readonly<Record<"status" | "words" | "createdAt" | "at", string>>,
  era: Era,
): object {
  const times = era === "modern" ? { ttlMs: null, pollIntervalMs: POLL_MS } : { ttl: null, pollInterval: POLL_MS };
  return {
    taskId,
    status,
    ...(words && { statusMessage: words }),
    createdAt,
    lastUpdatedAt: at || createdAt,
    ...times,
  };
}
