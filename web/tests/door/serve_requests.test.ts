/** Requests at a server of doors: its limits, its refusals, stops, answers, slow clients, and its end. */

import { request as begin } from "node:http";
import { connect } from "node:net";
import { type Event, EventType } from "@ag-ui/client";
import { afterEach, expect, it, vi } from "vitest";
import type { Frame } from "../../src/client/index.ts";
import { eventually } from "../eventually.ts";
import { named } from "../thread/recordings.ts";
import { readMessage } from "./readers.ts";
import { readAll, Served, TOKEN } from "./served.ts";

const ANSWER = named("an answer");
const RUN = {
  threadId: "c-1",
  runId: "r-1",
  messages: [{ id: "m1", role: "user", content: "go" }],
  tools: [],
  context: [],
  state: {},
  forwardedProps: {},
};
const CHAT = { id: "c-1", messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "go" }] }] };

let served: Served;

afterEach(async () => {
  await served.end();
  vi.unstubAllGlobals();
});

async function codeOf(response: Response): Promise<[status: number, code: string]> {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  return [response.status, (await response.json()).code];
}

/** Return the events of a stream of AG-UI, until it ends. */
async function eventsOf(response: Response): Promise<Event[]> {
  const blocks = (await response.text()).split("\n\n").filter((block) => block.startsWith("data: "));
  return blocks.map((block) => JSON.parse(block.slice("data: ".length)));
}

// --- Bad input

const MALFORMED = [
  { name: "a body that is no JSON", path: "/agui", body: "{", code: "bad_message" },
  { name: "a body that is not UTF-8", path: "/agui", body: new Uint8Array([0xff]), code: "bad_message" },
  { name: "a run without messages", path: "/agui", body: '{"threadId":"c-1"}', code: "bad_message" },
  { name: "a chat without an id", path: "/chat", body: '{"messages":[]}', code: "bad_message" },
  { name: "a chat without a message", path: "/chat", body: '{"id":"c-1","messages":[]}', code: "bad_message" },
  { name: "a message that is none", path: "/chat", body: '{"id":"c-1","messages":[{"id":1}]}', code: "bad_message" },
  {
    name: "a conversation that is no part of a path",
    path: "/agui",
    body: JSON.stringify({ ...RUN, threadId: "a/b" }),
    code: "bad_path",
  },
  {
    name: "a part that the log cannot have",
    path: "/chat",
    body: JSON.stringify({
      id: "c-1",
      messages: [{ id: "m1", role: "user", parts: [{ type: "reasoning", text: "" }] }],
    }),
    code: "unsupported_part",
  },
] as const;

it.each(MALFORMED)("$name is refused with $code", async ({ path, body, code }) => {
  served = await Served.at(ANSWER);
  expect(await codeOf(await served.fetch(path, { method: "POST", body }))).toEqual([400, code]);
});

it.each(["/agui", "/agui/connect", "/chat"])("a request to %s without a token is refused", async (path) => {
  served = await Served.at(ANSWER);
  const body = path === "/chat" ? CHAT : RUN;
  const response = await served.post(path, body, { headers: { Authorization: "" } });
  expect(response.headers.get("www-authenticate")).toBe("Bearer");
  expect(await codeOf(response)).toEqual([401, "unauthorized"]);
});

it.each([401, 403])("a token that the gateway refuses with %i is refused at every address", async (status) => {
  served = await Served.at(ANSWER);
  served.stage.gatewayRefuses = status;
  const answers = [
    served.post("/agui", RUN),
    served.post("/agui/connect", RUN),
    served.fetch("/agui/c-1"),
    served.post("/agui/c-1/stop", {}),
    served.post("/chat", CHAT),
    served.fetch("/chat/c-1/stream"),
    served.fetch("/chat/c-1/messages"),
    served.post("/chat/c-1/stop", {}),
  ];
  for (const answer of answers) {
    expect((await answer).headers.get("www-authenticate")).toBe("Bearer");
    expect(await codeOf(await answer)).toEqual([401, "unauthorized"]);
  }
});

it.each([
  { method: "GET", path: "/", is: [404, "not_found"] },
  { method: "GET", path: "/chat/%E0%A4%A/stream", is: [404, "not_found"] },
  { method: "DELETE", path: "/agui", is: [405, "method_not_allowed"] },
])("$method $path is refused", async ({ method, path, is }) => {
  served = await Served.at(ANSWER);
  expect(await codeOf(await served.fetch(path, { method }))).toEqual(is);
});

it.each(["not_found", "conversation_deleted", "message_id_taken", "rate_limited"])(
  "a message that the stage refuses with %s is an error of each protocol",
  async (code) => {
    served = await Served.at(ANSWER);
    served.stage.refuse("send", code);
    const events = await eventsOf(await served.post("/agui", RUN));
    expect(events.map(({ type }) => type)).toEqual([EventType.RUN_STARTED, EventType.RUN_ERROR]);
    expect(events.at(-1)).toMatchObject({ code });
    expect(await (await served.post("/chat", CHAT)).text()).toContain(`"errorText":"${code}: refused: ${code}"`);
  },
);

it("an answer that no call waits for is refused, and a run without a message", async () => {
  served = await Served.at(ANSWER, ANSWER.length);
  const resume = [{ interruptId: "tc_1", status: "resolved", payload: { approved: true } }];
  const answered = await eventsOf(await served.post("/agui", { ...RUN, resume }));
  expect(answered.at(-1)).toMatchObject({ type: EventType.RUN_ERROR, code: "approval_not_pending" });
  const silent = await eventsOf(await served.post("/agui", { ...RUN, messages: [] }));
  expect(silent.at(-1)).toMatchObject({ type: EventType.RUN_ERROR, code: "unsupported_message" });
});

// --- Approvals, stops

it("an interrupt is answered at a server that has not seen it", async () => {
  served = await Served.at(named("a call that is approved"));
  const agent = served.agent();
  const asked = agent.runAgent();
  await served.stage.playPast("approval.requested");
  await asked;
  expect(agent.events.at(-1)).toMatchObject({ type: EventType.RUN_FINISHED, outcome: { type: "interrupt" } });
  await served.replace();
  agent.url = `${served.url}/agui`;
  const interruptId = agent.pendingInterrupts[0]?.id ?? "";
  agent.pendingInterrupts = agent.pendingInterrupts.map((one) => ({ ...one, expiresAt: "2100-01-01T00:00:00Z" }));
  const done = agent.runAgent({ resume: [{ interruptId, status: "resolved", payload: { approved: true } }] });
  await eventually(() => expect(served.stage.asked("approve")).toMatchObject([{ call_id: interruptId }]));
  await served.stage.play();
  await done;
  expect(agent.messages.filter(({ role }) => role === "tool")).toMatchObject([{ content: "paid" }]);
  const late = served.agent([]);
  await late.connectAgent();
  expect(late.messages.slice(1)).toEqual(agent.messages.slice(1));
});

it.each(["agui", "chat"])("a stop at /%s is a request; a client that leaves stops nothing", async (door) => {
  served = await Served.at(named("a stop"));
  const leave = new AbortController();
  const options = { signal: leave.signal };
  await (door === "agui" ? served.post("/agui", RUN, options) : served.post("/chat", CHAT, options));
  await served.stage.play(6);
  leave.abort();
  await eventually(() => expect(served.stage.listeners).toBe(0));
  expect(served.stage.asked("event")).toEqual([]);
  expect((await served.post(`/${door}/c-1/stop`, {})).status).toBe(204);
  expect(served.stage.asked("event")).toMatchObject([{ kind: "stop" }]);
});

it("a page of the AI SDK reads its messages, and an open turn of another page from its beginning", async () => {
  served = await Served.at(named("a program"), 20);
  const request = { chatId: "c-1" };
  const stream = await served.transport().reconnectToStream(request);
  const chunks = readAll(stream);
  await served.stage.play();
  const [message] = await readMessage(await chunks);
  const messages = await (await served.fetch("/chat/c-1/messages")).json();
  expect(messages.at(-1)).toMatchObject({ id: message?.id, role: "assistant" });
  expect(await served.transport().reconnectToStream(request)).toBeNull();
});

// --- Limits

it("a silent stream has signs of life, which clients ignore", async () => {
  served = await Served.at(ANSWER, 0, { beatS: 0.01 });
  const response = await served.post("/agui", RUN);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes(":\n\n:\n\n")) text += (await reader?.read())?.value ?? "";
  await reader?.cancel();
  const agent = served.agent();
  const done = agent.runAgent();
  await served.stage.play();
  expect(await done).toMatchObject({ result: { answer: "Hello." } });
});

it("a server with all its streams in use refuses more, and answers its health check", async () => {
  served = await Served.at(ANSWER, 0, { streams: 1 });
  const leave = new AbortController();
  await served.post("/agui", RUN, { signal: leave.signal });
  const refused = await served.post("/chat", CHAT);
  expect(refused.headers.get("retry-after")).toBe("5");
  expect(await codeOf(refused)).toEqual([503, "too_many_streams"]);
  expect(await (await served.fetch("/health")).json()).toEqual({ status: "ok", streams: 1, max: 1 });
  leave.abort();
  await eventually(() => expect(served.stage.listeners).toBe(0));
  await eventually(async () => expect((await served.fetch("/agui/c-1")).status).toBe(200));
});

it("a body that is too large is refused", async () => {
  served = await Served.at(ANSWER);
  const response = await served.post("/agui", { ...RUN, state: "x".repeat(33 * 2 ** 20) });
  expect(await codeOf(response)).toEqual([413, "request_too_large"]);
});

it("pages of the listed origins may call, others may not read", async () => {
  const origin = "https://app.example.com";
  served = await Served.at(ANSWER, 0, { origins: [origin] });
  const preflight = await served.fetch("/agui", { method: "OPTIONS", headers: { Origin: origin } });
  expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, origin]);
  const headers = preflight.headers.get("access-control-allow-headers");
  expect(headers).toBe("Authorization, Content-Type, Mcp-Protocol-Version, Mcp-Method, Mcp-Name");
  const read = await served.fetch("/health", { headers: { Origin: origin } });
  expect(read.headers.get("access-control-allow-origin")).toBe(origin);
  const other = await served.fetch("/health", { headers: { Origin: "https://other.example.com" } });
  expect(other.headers.get("access-control-allow-origin")).toBeNull();
});

/** An answer of 10 MB: more than the connection holds for a client that does not read. */
function longAnswer(): readonly Frame[] {
  const piece = "word ".repeat(400);
  return ANSWER.flatMap((frame) => {
    if (frame.frame !== "delta" || frame.lane !== "answer.0" || frame.off !== 0) return [frame];
    return Array.from({ length: 5000 }, (_, i) => ({ ...frame, off: i * piece.length, text: piece }));
  });
}

it("a slow client is bounded in memory, and loses nothing", async () => {
  served = await Served.at(longAnswer());
  let text = "";
  const done = new Promise<void>((resolve) => {
    const request = begin(`${served.url}/agui`, { method: "POST", headers: TOKEN }, async (response) => {
      await served.stage.play(5000);
      await eventually(() => expect(served.stage.listeners).toBe(0)); // it has paused
      response.setEncoding("utf8");
      const reading = (async () => {
        for await (const part of response) text += part;
      })();
      await served.stage.play();
      await reading;
      resolve();
    });
    request.end(JSON.stringify(RUN));
  });
  await done;
  const events = text.split("\n\n").flatMap((block) => (block.startsWith("data: ") ? JSON.parse(block.slice(6)) : []));
  expect(events.at(-1)).toMatchObject({ type: EventType.RUN_FINISHED, result: { answer: "Hello." } });
});

it.each([
  { door: "/agui", body: RUN },
  { door: "/chat", body: CHAT },
])(
  "a client of $door that never reads is disconnected in the middle, and its stream is free",
  async ({ door, body }) => {
    served = await Served.at(longAnswer(), 0, { streams: 1, unreadS: 0.1 });
    const text = await new Promise<string>((resolve) => {
      const request = begin(`${served.url}${door}`, { method: "POST", headers: TOKEN }, async (response) => {
        await served.stage.play(5000);
        await eventually(async () =>
          expect(await (await served.fetch("/health")).json()).toMatchObject({ streams: 0 }),
        );
        let read = "";
        response.on("data", (part) => {
          read += part;
        });
        response.on("error", () => resolve(read));
      });
      request.end(JSON.stringify(body));
    });
    expect(text).not.toMatch(/RUN_FINISHED|RUN_ERROR|DONE/);
    expect(served.stage.listeners).toBe(0);
  },
);

it("a silent client that reads is not disconnected", async () => {
  served = await Served.at(ANSWER, 0, { unreadS: 0.02, beatS: 0.1 });
  const response = await served.post("/agui", RUN);
  let text = "";
  for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.endsWith(":\n\n:\n\n:\n\n")) await served.stage.play();
  }
  expect(text).toContain('"answer":"Hello."');
});

it("a server that ends closes its streams in the middle, and accepts nothing more", async () => {
  served = await Served.at(ANSWER);
  const agUi = await served.post("/agui", RUN);
  const chat = await served.post("/chat", CHAT);
  await served.stage.play(4);
  const bodies = [agUi.text(), chat.text()];
  await served.end();
  const [events, chunks] = await Promise.all(bodies);
  expect(events).not.toMatch(/RUN_FINISHED|RUN_ERROR/);
  expect(chunks).not.toContain("[DONE]");
  expect(served.stage.listeners).toBe(0);
  expect(served.stage.asked("event")).toEqual([]);
  await expect(served.fetch("/health")).rejects.toThrow();
});

it("a server that ends waits for an answer, and not for a connection that was opened in advance", async () => {
  served = await Served.at(ANSWER);
  const { hostname, port } = new URL(served.url);
  const early = connect(Number(port), hostname);
  await new Promise((resolve) => early.once("connect", resolve));
  const closed = new Promise((resolve) => early.once("close", resolve));
  // Its health check answers after the connection has arrived.
  expect((await served.fetch("/health")).status).toBe(200);
  vi.useFakeTimers({ toFake: ["setTimeout"] }); // the limit of the end is never reached
  const stop = served.post("/agui/c-1/stop", {});
  await eventually(() => expect(served.stage.posted).toContain("POST /v1/socket-tickets"));
  await served.end();
  vi.useRealTimers();
  expect((await stop).status).toBe(204);
  await closed;
});
