/**
 * What each door sends to the stage for one action of its client, recorded in `tests/data/doors/sent.json`: the tests of
 * the ingress make prompts of it. After a change that is intended: `npx vitest run tests/door/sent_frames.test.ts -u`.
 */

import type { AbstractAgent } from "@ag-ui/client";
import { type ChatTransport, DefaultChatTransport, type UIMessage } from "ai";
import { expect, it, vi } from "vitest";
import { SteplineAgent } from "../../packages/ag-ui/index.ts";
import { steplineTransport } from "../../packages/ai-sdk/index.ts";
import { itemId } from "../../packages/serve/responses/response_id.ts";
import { type EventFrame, emptyState, Session } from "../../src/client/index.ts";
import { Stage } from "../../src/door/stage.ts";
import { eventually } from "../eventually.ts";
import { named } from "../thread/recordings.ts";
import { modern, tokenOf } from "./mcp_client.ts";
import { Served, TOKEN } from "./served.ts";
import type { Sent } from "./story_stage.ts";

const TIMEZONE = "Europe/Zurich";
/** The token of an MCP client that may answer approvals. */
const DESK = tokenOf({ client_id: "desk" });
const RECORDED = "../../../tests/data/doors/sent.json";
/** The network: a story takes the place of the stage's addresses only. */
const network = globalThis.fetch;

/** An action of a client, as each protocol has it that has it at all. */
interface Action {
  /** The frame that it sends. */
  readonly frame: string;
  readonly client: (session: Session) => unknown;
  readonly aiSdk: (transport: ChatTransport<UIMessage>) => unknown;
  readonly agUi: (agent: AbstractAgent) => unknown;
  /** The input of a response. */
  readonly responses?: unknown;
  readonly mcp?: { readonly name: "ask" | "answer"; readonly arguments: Readonly<Record<string, unknown>> };
}

const FRAMES = named("a call that is edited");
const [ASKED] = FRAMES.filter(
  (frame): frame is EventFrame =>
    frame.frame === "events" && frame.events.some(({ type }) => type === "approval.requested"),
);
const REQUEST = ASKED?.events.find(({ type }) => type === "approval.requested");
const CALL = String(REQUEST?.data.call_id);
const WAITING = { n: ASKED?.n ?? 0, turn: REQUEST?.turn_id ?? "" };
const TEXT = "What is new?\n\n<b>“Größe”</b> [TURN] \u{1f3d4}";

const ACTIONS: Readonly<Record<string, Action>> = {
  "a message": {
    frame: "send",
    client: (session) => session.say(TEXT, { messageId: "m1" }),
    aiSdk: (transport) => chat(transport, user({ type: "text", text: TEXT })),
    agUi(agent) {
      agent.setMessages([{ id: "m1", role: "user", content: TEXT }]);
      return agent.runAgent();
    },
    responses: TEXT,
    mcp: { name: "ask", arguments: { message: TEXT, conversation: "c-1" } },
  },
  "a message with a file": {
    frame: "send",
    client: (session) => session.say(TEXT, { messageId: "m1", uploads: ["up_a.txt"] }),
    aiSdk(transport) {
      const url = "data:text/plain;base64,aGk=";
      const file = { type: "file" as const, mediaType: "text/plain", filename: "a.txt", url };
      return chat(transport, user(file, { type: "text", text: TEXT }));
    },
    agUi(agent) {
      const source = { type: "data" as const, value: "aGk=", mimeType: "text/plain" };
      const file = { type: "document" as const, source, metadata: { filename: "a.txt" } };
      agent.setMessages([{ id: "m1", role: "user", content: [file, { type: "text", text: TEXT }] }]);
      return agent.runAgent();
    },
    responses: [
      {
        role: "user",
        content: [
          { type: "input_file", filename: "a.txt", file_data: "data:text/plain;base64,aGk=" },
          { type: "input_text", text: TEXT },
        ],
      },
    ],
  },
  "an approval": answer("approve", { approved: true }),
  "a denial": answer("deny", { approved: false, text: "Too much." }),
  "an edit": answer("edit", { approved: true, params: { sum: 5 } }),
};

/** An answer to the request of the story. */
function answer(
  verdict: "approve" | "deny" | "edit",
  given: { readonly approved: boolean; readonly text?: string; readonly params?: Readonly<Record<string, unknown>> },
): Action {
  return {
    frame: verdict,
    client: (session) => session.answer(verdict, CALL, { params: given.params ?? {}, text: given.text ?? "" }),
    aiSdk(transport) {
      const approval = { id: CALL, approved: given.approved, reason: given.text ?? "" };
      const call = { type: "dynamic-tool" as const, toolName: "bank.pay", toolCallId: CALL, input: { sum: 100 } };
      const parts: UIMessage["parts"] = [{ ...call, state: "approval-responded", approval }];
      const message: UIMessage = { id: WAITING.turn, role: "assistant", metadata: WAITING, parts };
      return chat(transport, message, given.params ? { params: given.params } : {});
    },
    agUi(agent) {
      const interrupt = { id: CALL, reason: "tool_approval", toolCallId: CALL, metadata: { stepline: WAITING } };
      agent.pendingInterrupts = [interrupt];
      return agent.runAgent({ resume: [{ interruptId: CALL, status: "resolved", payload: given }] });
    },
    // Open Responses has no call with other parameters.
    responses: given.params ? undefined : [approvalResponse(given.approved, given.text)],
    mcp: {
      name: "answer",
      arguments: {
        conversation: "c-1",
        call_id: CALL,
        verdict,
        ...(given.text && { reason: given.text }),
        ...(given.params && { params: given.params }),
      },
    },
  };
}

function approvalResponse(approve: boolean, reason = "") {
  return { type: "mcp_approval_response", approval_request_id: itemId("mcpr", "c-1", CALL), approve, reason };
}

/** The doors whose protocol has no id of a message: one is drawn for each. */
const DRAWS = new Set(["served_responses", "served_mcp"]);

const DOORS: Readonly<Record<string, (served: Served, action: Action) => unknown>> = {
  client({ stage: { url, conversation } }, { client }) {
    const { dial, clock } = new Stage({ url, conversation, token: "a.b.c" });
    const nothing = () => undefined;
    const listeners = { onEffects: nothing, onLink: nothing, onFailure: nothing };
    const session = new Session({ dial, clock, state: emptyState(conversation), timezone: TIMEZONE, ...listeners });
    session.start();
    return client(session);
  },
  ai_sdk: ({ stage: { url, conversation } }, { aiSdk }) =>
    aiSdk(steplineTransport({ url, conversation, token: "a.b.c", timezone: TIMEZONE })),
  ag_ui: ({ stage: { url, conversation } }, { agUi }) =>
    agUi(new SteplineAgent({ url, conversation, token: "a.b.c", timezone: TIMEZONE })),
  served_ai_sdk: ({ url }, { aiSdk }) =>
    aiSdk(new DefaultChatTransport({ api: `${url}/chat?timezone=${TIMEZONE}`, headers: TOKEN, fetch: network })),
  served_ag_ui(served, { agUi }) {
    const agent = served.agent([]);
    agent.url += `?timezone=${TIMEZONE}`;
    return agUi(agent);
  },
  served_responses: (served, { responses: input }) =>
    served.post(`/v1/responses?timezone=${TIMEZONE}`, { input, conversation: "c-1", background: true }),
  served_mcp: (served, { mcp }) =>
    modern(served, "tools/call", { ...mcp }, {}, { query: `?timezone=${TIMEZONE}`, token: DESK }),
};

function doorsOf({ responses, mcp }: Action): readonly string[] {
  const missing = new Set([...(responses ? [] : ["served_responses"]), ...(mcp ? [] : ["served_mcp"])]);
  return Object.keys(DOORS).filter((door) => !missing.has(door));
}

function user(...parts: UIMessage["parts"]): UIMessage {
  return { id: "m1", role: "user", parts };
}

function chat(transport: ChatTransport<UIMessage>, message: UIMessage, body: object = {}): unknown {
  const request = { chatId: "c-1", messageId: undefined, abortSignal: undefined, messages: [message], body };
  return transport.sendMessages({ trigger: "submit-message", ...request });
}

/** Return what a door sends for an action. An id that is drawn is recorded as m1, and that of an answer is left out. */
async function sentBy(door: string, action: Action): Promise<Sent> {
  const waits = action.frame !== "send";
  const at = waits && ASKED ? FRAMES.indexOf(ASKED) + 1 : 0;
  const served = await Served.at(waits ? FRAMES : named("an answer"), at, { mcpAnswers: ["desk"] });
  const done = Promise.resolve(DOORS[door]?.(served, action)).catch(() => null);
  await eventually(() => expect(served.stage.asked(action.frame)).toHaveLength(1));
  const [{ message_id: id, ...rest } = {}] = served.stage.asked(action.frame);
  await served.end();
  served.stage.cut();
  void done;
  vi.unstubAllGlobals();
  return waits ? rest : { ...rest, message_id: DRAWS.has(door) ? "m1" : id };
}

it("each door sends what is recorded, the same as our own client", async () => {
  const recorded: Record<string, Record<string, Sent>> = {};
  for (const [name, action] of Object.entries(ACTIONS)) {
    const sent: Record<string, Sent> = {};
    for (const door of doorsOf(action)) sent[door] = await sentBy(door, action);
    for (const [door, frame] of Object.entries(sent)) expect(frame, `${name}, ${door}`).toEqual(sent.client);
    recorded[name] = sent;
  }
  await expect(`${JSON.stringify(recorded, null, 1)}\n`).toMatchFileSnapshot(RECORDED);
});
