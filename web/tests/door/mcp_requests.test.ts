/** Requests of MCP clients: tools, files, approvals, stops, tasks, sign-in, and what is refused. */

import type { Client, Tool } from "@modelcontextprotocol/client";
import {
  createTaskSessionFromClient,
  resultFromTaskOutcome,
  toolDeclarationFromMcpTool,
} from "@modelcontextprotocol/ext-tasks/client";
import { isCreateTaskResultV2, isDetailedTaskV2 } from "@modelcontextprotocol/ext-tasks/core/v2";
import { afterEach, expect, it, vi } from "vitest";
import type { Frame } from "../../src/client/index.ts";
import { eventually } from "../eventually.ts";
import { named } from "../thread/recordings.ts";
import { connect, ERAS, modern, post, textOf, tokenOf } from "./mcp_client.ts";
import { Served } from "./served.ts";

const ANSWER = named("an answer");
const FAILS = named("a turn that fails");
const WAITS = named("a call that waits for a person");
const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "tests", version: "0" } },
};

let served: Served;

afterEach(async () => {
  await served.end();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Let the next message have the id of a story's first message. */
function sendAs(frames: readonly Frame[]): void {
  vi.spyOn(crypto, "randomUUID").mockReturnValue(messageOf(frames) as ReturnType<typeof crypto.randomUUID>);
}

function messageOf(frames: readonly Frame[]): string {
  const events = frames.flatMap((frame) => (frame.frame === "events" ? frame.events : []));
  return String(events.find(({ type }) => type === "chat.conversation.accepted")?.data.message_id);
}

function taskOf(frames: readonly Frame[]): string {
  return `c-1.${messageOf(frames)}`;
}

function call(client: Client, name: string, params: Record<string, unknown>, options = {}) {
  return client.callTool({ name, arguments: params }, options);
}

// --- Tools

it.each(ERAS)("a client of %s sees what a turn does, and gets its answer", async (revision) => {
  served = await Served.at(named("a program"));
  const client = await connect(served, revision);
  const heard: string[] = [];
  const onprogress = ({ message = "" }) => void heard.push(message);
  const asked = call(client, "ask", { message: "go", conversation: "c-1" }, { onprogress });
  await served.stage.play();
  const result = await asked;
  const names = result.structuredContent as Record<string, unknown>;
  expect(names).toMatchObject({ conversation: "c-1", status: "done" });
  expect(textOf(result)).toBe(names.answer);
  expect(heard).toContain("Round 1.");
  expect(served.stage.asked("send")).toMatchObject([{ text: "go", conversation: "c-1" }]);
});

it("a message without a conversation begins one", async () => {
  served = await Served.at(ANSWER);
  const client = await connect(served, "2026-07-28");
  const asked = call(client, "ask", { message: "go" }).catch(() => "cut");
  await eventually(() =>
    expect(served.stage.asked("send")).toMatchObject([{ conversation: expect.stringMatching(/^conv_/) }]),
  );
  await served.end();
  await asked;
});

it.each(ERAS)(
  "a turn that waits for a person is returned to a client of %s, and `status` shows it",
  async (revision) => {
    served = await Served.at(WAITS);
    const client = await connect(served, revision);
    sendAs(WAITS);
    const asked = call(client, "ask", { message: "go", conversation: "c-1" });
    await served.stage.play();
    const waits = (await asked).structuredContent as { status: string; approval: object };
    expect(waits).toMatchObject({ status: "waits_for_approval", approval: { params: { sum: 100 } } });
    const status = await call(client, "status", { conversation: "c-1" });
    expect(status.structuredContent).toMatchObject({ open: true, approval: waits.approval, last: null });
    expect(JSON.parse((status.content[0] as { text: string }).text)).toEqual(status.structuredContent);
    expect(JSON.parse(((await asked).content.at(-1) as { text: string }).text)).toMatchObject({ conversation: "c-1" });
  },
);

it("the status of an idle conversation has its last answer", async () => {
  served = await Served.at(ANSWER, ANSWER.length);
  const client = await connect(served, "2026-07-28");
  const { structuredContent } = await call(client, "status", { conversation: "c-1" });
  expect(structuredContent).toMatchObject({ open: false, plan: null, approval: null, last: { answer: "Hello." } });
});

it("a turn that fails is an error of the tool, with its code", async () => {
  served = await Served.at(FAILS);
  const client = await connect(served, "2026-07-28");
  sendAs(FAILS);
  const asked = call(client, "ask", { message: "go", conversation: "c-1" });
  await served.stage.play();
  const { isError, structuredContent } = await asked;
  expect(isError).toBe(true);
  expect(structuredContent).toMatchObject({ status: "failed", code: expect.stringMatching(/^[a-z_]+$/) });
});

// --- Files

it.each(ERAS)("a client of %s lists the files, and reads one of them as a resource or by a link", async (revision) => {
  served = await Served.at(ANSWER, ANSWER.length);
  const row = { logical_path: "fi:turn_1.files/a b/ü.md", filename: "ü.md", mime: "text/markdown", size_bytes: 7 };
  served.stage.files = [row];
  const client = await connect(served, revision);
  const listed = await call(client, "files", { conversation: "c-1" });
  const link = listed.content[1] as { type: string; uri: string; name: string };
  expect(link).toMatchObject({ type: "resource_link", name: "ü.md", mimeType: "text/markdown", size: 7 });
  const { contents } = await client.readResource({ uri: link.uri });
  expect(contents).toMatchObject([{ uri: link.uri, mimeType: "text/markdown", text: "# Über" }]);
  served.stage.file = { mime: "image/png", size_bytes: 2, bytes: [0xff, 0x00] };
  expect((await client.readResource({ uri: link.uri })).contents).toMatchObject([{ blob: "/wA=" }]);
  const linked = await call(client, "files", { conversation: "c-1", path: row.logical_path });
  expect(linked.structuredContent).toMatchObject({ url: `https://files.example.com/${row.logical_path}` });
  const { resourceTemplates } = await client.listResourceTemplates();
  expect(resourceTemplates).toMatchObject([{ uriTemplate: "stepline:{conversation}/{path}" }]);
  served.stage.file = { mime: "text/plain", size_bytes: 2 ** 30, bytes: [] };
  await expect(client.readResource({ uri: link.uri })).rejects.toMatchObject({ data: { code: "content_too_large" } });
});

// --- Approvals

it.each([
  { claims: { azp: "page" }, may: false },
  { claims: { azp: "desk" }, may: true },
  { claims: { azp: "page", client_id: "desk" }, may: true },
  { claims: { azp: "desk", client_id: "page" }, may: false },
  { claims: {}, may: false },
])("only a client that the operator names has the tool for answers: $claims", async ({ claims, may }) => {
  served = await Served.at(WAITS, WAITS.length, { mcpAnswers: ["desk"] });
  const client = await connect(served, "2026-07-28", tokenOf(claims));
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(["ask", "status", "files", ...(may ? ["answer"] : [])]);
  const { structuredContent } = await call(client, "status", { conversation: "c-1" });
  const { call_id } = (structuredContent as { approval: { call_id: string } }).approval;
  const answered = call(client, "answer", { conversation: "c-1", call_id, verdict: "deny", reason: "No." });
  if (may) {
    expect((await answered).structuredContent).toMatchObject({ call_id, verdict: "deny" });
    expect(served.stage.asked("deny")).toMatchObject([{ call_id, text: "No." }]);
  } else {
    await expect(answered).rejects.toMatchObject({ code: -32602, data: { code: "unknown_tool_id" } });
    expect(served.stage.asked("deny")).toEqual([]);
  }
});

// --- Cancellation

it("a client of 2026-07-28 that closes the response stops its turn", async () => {
  served = await Served.at(named("a stop"));
  const client = await connect(served, "2026-07-28");
  const cancel = new AbortController();
  const asked = call(client, "ask", { message: "go" }, { signal: cancel.signal }).catch(() => "cancelled");
  await served.stage.play(6);
  cancel.abort();
  expect(await asked).toBe("cancelled");
  await eventually(() => expect(served.stage.asked("event")).toMatchObject([{ kind: "stop" }]));
  await eventually(() => expect(served.stage.listeners).toBe(0));
});

it("a message that waits for the turn of another client stops nothing when it is cancelled", async () => {
  served = await Served.at(named("a stop"), 6);
  const client = await connect(served, "2026-07-28");
  const cancel = new AbortController();
  const asked = call(client, "ask", { message: "go", conversation: "c-1" }, { signal: cancel.signal });
  await eventually(() => expect(served.stage.asked("send")).toHaveLength(1));
  cancel.abort();
  await expect(asked).rejects.toThrow();
  await eventually(() => expect(served.stage.listeners).toBe(0));
  expect(served.stage.asked("event")).toEqual([]);
});

it("a client of 2025-11-25 that leaves stops nothing, as its revision says", async () => {
  served = await Served.at(named("a stop"));
  const client = await connect(served, "2025-11-25");
  const cancel = new AbortController();
  const asked = call(client, "ask", { message: "go" }, { signal: cancel.signal }).catch(() => "cancelled");
  await served.stage.play(6);
  cancel.abort();
  await asked;
  await client.close();
  await eventually(() => expect(served.stage.listeners).toBe(0));
  expect(served.stage.asked("event")).toEqual([]);
});

it("a server that ends says so, and stops no turn", async () => {
  served = await Served.at(named("a stop"));
  const client = await connect(served, "2026-07-28");
  const asked = call(client, "ask", { message: "go" }).catch(({ data }) => data.code);
  await served.stage.play(6);
  await served.end();
  expect(await asked).toBe("ending");
  expect(served.stage.asked("event")).toEqual([]);
  expect(served.stage.listeners).toBe(0);
});

// --- Tasks

it("a client of 2026-07-28 that declares tasks gets one, which any server knows until it has its result", async () => {
  served = await Served.at(ANSWER);
  sendAs(ANSWER);
  const created = await modern(served, "tools/call", {
    name: "ask",
    arguments: { message: "go", conversation: "c-1" },
  });
  expect(isCreateTaskResultV2(created)).toBe(true);
  const { taskId } = created as { taskId: string };
  expect(served.stage.asked("send")).toMatchObject([{ text: "go", conversation: "c-1" }]);
  const states = new Set();
  for (let at = 1; at <= ANSWER.length; at += 1) {
    await served.end();
    vi.unstubAllGlobals();
    served = await Served.at(ANSWER, at);
    const state = await modern(served, "tasks/get", { taskId });
    expect(isDetailedTaskV2(state), JSON.stringify(state)).toBe(true);
    states.add(state.status);
    if (state.status === "completed") expect(state.result).toMatchObject({ structuredContent: { answer: "Hello." } });
  }
  expect([...states]).toEqual(["working", "completed"]);
  expect(await modern(served, "tasks/update", { taskId, inputResponses: {} })).toMatchObject({
    resultType: "complete",
  });
  expect(await modern(served, "tasks/cancel", { taskId })).toMatchObject({ resultType: "complete" });
  expect(served.stage.asked("event")).toEqual([]);
});

it("a client of 2025-11-25 requests a task, and reads its result", async () => {
  served = await Served.at(ANSWER, ANSWER.length);
  sendAs(ANSWER);
  const client = await connect(served, "2025-11-25");
  const session = createTaskSessionFromClient(client, { endpointId: "tests" });
  const [tool] = (await client.listTools()).tools as [Tool];
  const options = { declaration: toolDeclarationFromMcpTool(tool), task: { preference: "require" } } as const;
  const execution = await session.callTool("ask", { message: "go", conversation: "c-1" }, options);
  expect(execution.kind).toBe("task");
  const { outcome } = await execution.settle();
  expect(resultFromTaskOutcome(outcome)).toMatchObject({ structuredContent: { answer: "Hello.", status: "done" } });
  await session.close();
});

it("the result of a task is sent at its end, also if a person answers before", async () => {
  const frames = named("a call that is approved");
  served = await Served.at(frames, 2);
  const result = post(served, { jsonrpc: "2.0", id: 1, method: "tasks/result", params: { taskId: taskOf(frames) } });
  await served.stage.play();
  expect(await result).toMatchObject([200, { result: { structuredContent: { status: "done" } } }]);
});

it("a task whose turn waits for a person is working, and says so", async () => {
  served = await Served.at(WAITS, WAITS.length);
  const { status, statusMessage } = await modern(served, "tasks/get", { taskId: taskOf(WAITS) });
  expect(status).toBe("working");
  expect(statusMessage).toContain("waits for a person's approval");
});

it("a task whose turn fails is completed with an error of the tool, in 2025-11-25 failed", async () => {
  served = await Served.at(FAILS, FAILS.length);
  const taskId = taskOf(FAILS);
  const state = await modern(served, "tasks/get", { taskId });
  expect(isDetailedTaskV2(state)).toBe(true);
  expect(state).toMatchObject({ status: "completed", result: { isError: true } });
  const request = (method: string) => ({ jsonrpc: "2.0", id: 1, method, params: { taskId } });
  expect(await post(served, request("tasks/get"))).toMatchObject([200, { result: { status: "failed" } }]);
  const [, { result }] = await post(served, request("tasks/result"));
  expect(result).toMatchObject({
    isError: true,
    _meta: { "io.modelcontextprotocol/related-task": { taskId } },
  });
});

it.each(ERAS)("a task of %s that is cancelled stops its turn", async (revision) => {
  const frames = named("a stop");
  served = await Served.at(frames, 6);
  const taskId = taskOf(frames);
  const request = { jsonrpc: "2.0", id: 1, method: "tasks/cancel", params: { taskId } };
  const cancelled = revision === "2026-07-28" ? modern(served, "tasks/cancel", { taskId }) : post(served, request);
  await eventually(() => expect(served.stage.asked("event")).toMatchObject([{ kind: "stop" }]));
  if (revision === "2025-11-25") await served.stage.play();
  const answer = await cancelled;
  if (revision === "2025-11-25") expect(answer).toMatchObject([200, { result: { taskId, status: "cancelled" } }]);
  else expect(answer).toMatchObject({ resultType: "complete" });
});

// --- Sign-in

it.each([401, 403])(
  "a token that the gateway refuses with %i is refused before any message is read",
  async (status) => {
    served = await Served.at(ANSWER);
    served.stage.gatewayRefuses = status;
    const response = await served.post("/mcp", INITIALIZE);
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe(
      `Bearer resource_metadata="${served.url}/.well-known/oauth-protected-resource/mcp"`,
    );
    const metadata = /"(.*)"/.exec(response.headers.get("www-authenticate") ?? "")?.[1] ?? "";
    for (const address of [metadata, metadata.replace(/\/mcp$/, "")]) {
      expect(await (await served.network(address)).json()).toMatchObject({
        resource: `${served.url}/mcp`,
        authorization_servers: ["https://issuer.example.com"],
      });
    }
  },
);

it("a request without a token is refused, and one over HTTPS is led to an address with HTTPS", async () => {
  served = await Served.at(ANSWER);
  const headers = { Authorization: "", "X-Forwarded-Proto": "https" };
  const response = await served.post("/mcp", INITIALIZE, { headers });
  expect(response.status).toBe(401);
  const [, host] = served.url.split("//");
  expect(response.headers.get("www-authenticate")).toContain(`"https://${host}/.well-known/`);
});

it("a server that does not know the issuer names none", async () => {
  served = await Served.at(ANSWER, 0, { issuer: "" });
  const response = await served.post("/mcp", INITIALIZE, { headers: { Authorization: "" } });
  expect(response.headers.get("www-authenticate")).toBe("Bearer");
  expect((await served.fetch("/.well-known/oauth-protected-resource")).status).toBe(404);
});

it("a page of another origin is refused, which protects a server of this machine from other names for it", async () => {
  const origin = "https://app.example.com";
  served = await Served.at(ANSWER, 0, { origins: [origin] });
  for (const foreign of ["https://other.example.com", "null"]) {
    const response = await served.post("/mcp", INITIALIZE, { headers: { Origin: foreign } });
    expect([response.status, (await response.json()).code]).toEqual([403, "origin_not_allowed"]);
  }
  const allowed = await post(served, INITIALIZE, { Origin: origin });
  expect(allowed).toMatchObject([200, { result: { protocolVersion: "2025-11-25" } }]);
});

// --- Bad input

const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list" };

function asking(name: string, params: unknown) {
  return { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: params } };
}

it.each([
  { name: "a body that is no JSON", body: "{", status: 400, code: -32700, ours: "bad_message" },
  { name: "a batch", body: [LIST], status: 400, code: -32600, ours: "bad_message" },
  { name: "an unknown tool", body: asking("drop", {}), ours: "unknown_tool_id" },
  { name: "the tool for answers", body: asking("answer", { conversation: "c-1" }), ours: "unknown_tool_id" },
  { name: "no parameters", body: { ...LIST, method: "tools/call", params: { name: "ask" } }, ours: "bad_message" },
  { name: "an empty message", body: asking("ask", { message: "" }), ours: "bad_message" },
  { name: "an odd parameter", body: asking("ask", { message: "go", model: "x" }), ours: "bad_message" },
  { name: "an odd conversation", body: asking("status", { conversation: "a/b" }), ours: "bad_message" },
  { name: "no conversation", body: asking("status", { conversation: "c-9" }), ours: "not_found" },
  { name: "a task that is none", body: { ...LIST, method: "tasks/get", params: { taskId: "x" } }, ours: "not_found" },
  {
    name: "a task of no message",
    body: { ...LIST, method: "tasks/get", params: { taskId: "c-1.x" } },
    ours: "not_found",
  },
  {
    name: "a file that is none",
    body: { ...LIST, method: "resources/read", params: { uri: "a:b" } },
    ours: "bad_path",
  },
])("$name is refused with $ours", async ({ body, status = 200, code = -32602, ours }) => {
  served = await Served.at([]);
  expect(await post(served, body)).toMatchObject([status, { error: { code, data: { code: ours } } }]);
});

it.each(["1999-01-01", "2099-01-01"])("revision %s is refused with the revisions that are known", async (version) => {
  served = await Served.at(ANSWER);
  const [status, { error }] = await post(served, LIST, { "Mcp-Protocol-Version": version });
  expect(status).toBe(400);
  expect(error).toMatchObject({ message: expect.stringMatching(/version/i) });
});

it.each(["not_found", "conversation_deleted", "rate_limited", "turns_full"])(
  "a message that the stage refuses with %s is an error with that code, as a call and as a task",
  async (code) => {
    served = await Served.at(ANSWER);
    served.stage.refuse("send", code);
    const params = { name: "ask", arguments: { message: "go", conversation: "c-1" } };
    for (const capabilities of [{}, undefined]) {
      expect(await modern(served, "tools/call", params, capabilities)).toMatchObject({ code: -32602, data: { code } });
    }
  },
);

it("a task is refused to a client that does not declare tasks", async () => {
  served = await Served.at(ANSWER, ANSWER.length);
  expect(await modern(served, "tasks/get", { taskId: taskOf(ANSWER) }, {})).toMatchObject({ code: -32021 });
});

it.each(["GET", "DELETE"])("%s has no meaning without sessions", async (method) => {
  served = await Served.at(ANSWER);
  const response = await served.fetch("/mcp", { method });
  expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
});

it("a server with all its streams in use refuses more", async () => {
  served = await Served.at(ANSWER, 0, { streams: 1 });
  const client = await connect(served, "2026-07-28");
  const asked = call(client, "ask", { message: "go" }).catch(() => "cut");
  await eventually(() => expect(served.stage.asked("send")).toHaveLength(1));
  const response = await served.post("/mcp", LIST);
  expect([response.status, (await response.json()).code]).toEqual([503, "too_many_streams"]);
  await served.end();
  expect(await asked).toBe("cut");
});
