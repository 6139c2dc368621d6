/**
 * The MCP server of one request: the methods of both eras of the protocol, over tools, files and tasks.
 *
 * The package serves revision 2026-07-28, and the older ones without sessions.
 */

import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  createMcpHandler,
  type McpHttpHandler,
  type McpRequestContext,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import type { Stage } from "../../../src/door/stage.ts";
import { Refusal, refusalOf } from "../refusal.ts";
import { askTurn } from "./asked_turn.ts";
import { answerRequest, filesResult, readFile, statusResult } from "./tool_calls.ts";
import { FILE_TEMPLATE, turnResult } from "./tool_result.ts";
import { PARAMS, type ToolName, toolsOf } from "./tool_table.ts";
import type { TurnOutcome } from "./turn_outcome.ts";
import { awaitTask, cancelTask, createTask, type Era, getTask, TASKS } from "./turn_task.ts";

/** The request that a server answers. */
export interface McpCall {
  readonly era: Era;
  readonly version: string;
  readonly mayAnswer: boolean;
  readonly left: AbortSignal;
  stage(conversation: string): Stage;
}

export type Given = Omit<McpCall, "era">;
export type Handle = McpHttpHandler["fetch"];

interface ToolParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
  readonly task?: object | undefined;
}

const INSTRUCTIONS =
  "`ask` sends a message to the agent; give it the `conversation` of an answer to continue that one. A turn may wait for" +
  " a person's approval: `status` shows it.";

const TASK = z.looseObject({ taskId: z.string() });

/** Return the function that answers a request; `given` is in `extra` of the request's `authInfo`. */
export function makeHandler(): Handle {
  const serve = ({ era, authInfo }: McpRequestContext) => makeServer({ era, ...(authInfo?.extra?.given as Given) });
  // A stream has signs of life while a turn is silent, and its headers pass a proxy at once.
  return createMcpHandler(serve, { responseMode: "sse" }).fetch;
}

function makeServer(call: McpCall): Server {
  const { era, left, mayAnswer } = call;
  const stageOf = (conversation: string) => call.stage(conversation);
  const tasks =
    era === "modern" ? { extensions: { [TASKS]: {} } } : { tasks: { requests: { tools: { call: {} } }, cancel: {} } };
  const capabilities = { tools: {}, resources: {}, ...tasks };
  const server = new Server({ name: "stepline", version: call.version }, { capabilities, instructions: INSTRUCTIONS });
  server.setRequestHandler("tools/list", () => ({ tools: toolsOf(mayAnswer) }));
  server.setRequestHandler("tools/call", async ({ params }, context) => {
    return (await coded(() => callTool(call, params, context))) as never;
  });
  server.setRequestHandler("resources/list", () => ({ resources: [] }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [{ name: "file", title: "A file of a conversation", uriTemplate: FILE_TEMPLATE }],
  }));
  server.setRequestHandler("resources/read", ({ params }) => coded(() => readFile(stageOf, params.uri)));
  const onTask = (method: string, answer: (id: string) => Promise<object>) =>
    server.setRequestHandler(method, { params: TASK }, ({ taskId }, context) => {
      if (era === "modern") checkTasks(context);
      return coded(() => answer(taskId)) as Promise<Record<string, unknown>>;
    });
  onTask("tasks/get", (id) => getTask(stageOf, id, era));
  onTask("tasks/cancel", (id) => cancelTask(stageOf, id, era, left));
  if (era === "legacy") onTask("tasks/result", (id) => awaitTask(stageOf, id, left));
  // No task ever asks for input.
  else onTask("tasks/update", async (id) => (await getTask(stageOf, id, era)) && {});
  return server;
}

async function callTool(call: McpCall, params: ToolParams, context: ServerContext): Promise<object> {
  const name = toolsOf(call.mayAnswer).find((tool) => tool.name === params.name)?.name as ToolName | undefined;
  switch (name) {
    case "ask":
      return ask(call, paramsOf("ask", params), params.task !== undefined, context);
    case "status":
      return statusResult(call.stage(paramsOf("status", params).conversation));
    case "files": {
      const given = paramsOf("files", params);
      return filesResult(call.stage(given.conversation), given);
    }
    case "answer": {
      const given = paramsOf("answer", params);
      return answerRequest(call.stage(given.conversation), given);
    }
    default:
      throw new Refusal(400, "unknown_tool_id", `there is no tool ${params.name}`);
  }
}

async function ask(
  { era, stage: stageOf, left }: McpCall,
  { message, conversation }: z.infer<typeof PARAMS.ask>,
  isTask: boolean,
  context: ServerContext,
): Promise<object> {
  const stage = stageOf(conversation ?? `conv_${crypto.randomUUID()}`);
  if (era === "modern" ? takesTasks(context) : isTask) return createTask(stage, message, era);
  const past = conversation ? await stage.readTurns(1) : null;
  const leaving = { left, stops: era === "modern" };
  const outcome = await askTurn(stage, message, { past, leaving, onOutcome: showProgress(context) });
  return turnResult(stage.conversation, outcome);
}

/** Return a function that shows a client what a turn does, if the client asks for that. */
function showProgress({ mcpReq: { _meta, notify } }: ServerContext): (outcome: TurnOutcome) => void {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return () => undefined;
  let [shown, progress] = ["", 0];
  return ({ doing: message }) => {
    if (message === shown) return;
    shown = message;
    progress += 1;
    // A client that has left gets no progress; its request ends by itself.
    notify({ method: "notifications/progress", params: { progressToken, progress, message } }).catch(() => undefined);
  };
}

/** Return the parameters of a call. Throws Refusal `bad_message`. */
function paramsOf<Name extends ToolName>(name: Name, { arguments: given }: ToolParams): z.infer<(typeof PARAMS)[Name]> {
  const { success, data, error } = PARAMS[name].safeParse(given ?? {});
  if (success) return data as z.infer<(typeof PARAMS)[Name]>;
  const [issue] = error.issues;
  throw new Refusal(400, "bad_message", `${issue?.path.join(".")}: ${issue?.message}`);
}

function takesTasks({ mcpReq: { envelope } }: ServerContext): boolean {
  const declared = (envelope as Partial<Record<string, ClientCapabilities>> | undefined)?.[
    CLIENT_CAPABILITIES_META_KEY
  ];
  return declared?.extensions?.[TASKS] !== undefined;
}

function checkTasks(context: ServerContext): void {
  if (takesTasks(context)) return;
  throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS]: {} } } });
}

/** Run an answer; its refusals become errors of the protocol with our code in `data`. */
async function coded<Result>(answer: () => Promise<Result>): Promise<Result> {
  try {
    return await answer();
  } catch (error) {
    const refusal = refusalOf(error);
    if (!refusal) console.error(JSON.stringify({ level: "error", event: "failed", error: String(error) }));
    const { status, code, message } = refusal ?? new Refusal(500, "failed", "This server made a mistake.");
    const kind = status < 500 ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError;
    throw new ProtocolError(kind, message, { code });
  }
}
