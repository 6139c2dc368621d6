/** Requests of Open Responses at a server of doors: what is sent to the stage, what is left out, and what is refused. */

import { afterEach, expect, it, vi } from "vitest";
import { responseId } from "../../packages/serve/responses/response_id.ts";
import type { ClientEvent, EventFrame } from "../../src/client/index.ts";
import { eventually } from "../eventually.ts";
import { named } from "../thread/recordings.ts";
import { FACTS, ResponseReader, readStream } from "./response_reader.ts";
import { Served } from "./served.ts";

const ANSWER = named("an answer");
const SAID = { input: "go", conversation: "c-1" };
const ID = responseId(FACTS.name);
const PIXEL = "data:image/png;base64,iVBORw0KGgo=";

let served: Served;

afterEach(async () => {
  await served.end();
  vi.unstubAllGlobals();
});

async function errorOf(response: Response) {
  expect(response.headers.get("content-type")).toBe("application/json");
  const { error } = await response.json();
  expect(Object.keys(error)).toEqual(["message", "type", "code", "param"]);
  return [response.status, error.code, error.param];
}

/** Send a request in the background, and return the message that the stage received. */
async function sentBy(body: object, headers: Readonly<Record<string, string>> = {}) {
  const response = await served.post("/v1/responses", { background: true, ...body }, { headers });
  expect(await response.clone().json()).toMatchObject({ object: "response", status: "queued" });
  const [message] = served.stage.asked("send");
  return { message: message as Readonly<Record<string, unknown>>, response: await response.json() };
}

const user = (content: unknown) => ({ type: "message", role: "user", content });

// --- Bad input

const REFUSED = [
  { name: "a body that is a list", body: [], is: ["bad_message", null] },
  { name: "a parameter that no client knows", body: { ...SAID, wish: 1 }, is: ["unsupported_parameter", "wish"] },
  { name: "a limit of calls", body: { ...SAID, max_tool_calls: 1 }, is: ["unsupported_parameter", "max_tool_calls"] },
  {
    name: "another format of the answer",
    body: { ...SAID, text: { format: { type: "json_schema" } } },
    is: ["unsupported_parameter", "text.format"],
  },
  {
    name: "a demand for a call",
    body: { ...SAID, tool_choice: "required" },
    is: ["unsupported_tool", "tool_choice"],
  },
  {
    name: "a demand for one function",
    body: { ...SAID, tool_choice: { type: "function", name: "f" } },
    is: ["unsupported_tool", "tool_choice"],
  },
  { name: "tools that are no list", body: { ...SAID, tools: {} }, is: ["bad_message", "tools"] },
  { name: "a stream that is no flag", body: { ...SAID, stream: "yes" }, is: ["bad_message", "stream"] },
  { name: "an input that is a number", body: { input: 1 }, is: ["bad_message", "input"] },
  { name: "no input", body: {}, is: ["unsupported_message", "input"] },
  {
    name: "an input that ends with the assistant",
    body: { input: [user("a"), { role: "assistant", content: "b" }] },
    is: ["unsupported_message", "input"],
  },
  {
    name: "a result of the caller's tool",
    body: { input: [user("a"), { type: "function_call_output", call_id: "c", output: "1" }] },
    is: ["unsupported_message", "input"],
  },
  { name: "another role", body: { input: [{ role: "tool", content: "" }] }, is: ["bad_message", "input[0].role"] },
  {
    name: "a picture by its address",
    body: { input: [user([{ type: "input_image", image_url: "https://example.com/a.png" }])] },
    is: ["unsupported_part", "input[0].content[0]"],
  },
  {
    name: "a file by its address, after text",
    body: {
      input: [
        user([
          { type: "input_text", text: "a" },
          { type: "input_file", file_url: "https://example.com/a" },
        ]),
      ],
    },
    is: ["unsupported_part", "input[0].content[1]"],
  },
  {
    name: "a file whose data is damaged",
    body: { input: [user([{ type: "input_file", file_data: "!", filename: "a.txt" }])] },
    is: ["unsupported_part", "input[0].content[0]"],
  },
  {
    name: "audio",
    body: { input: [user([{ type: "input_audio" }])] },
    is: ["unsupported_part", "input[0].content[0]"],
  },
  {
    name: "a conversation and a response",
    body: { ...SAID, previous_response_id: ID },
    is: ["bad_message", "conversation"],
  },
  { name: "a conversation that is no part of a path", body: { ...SAID, conversation: "a/b" }, is: ["bad_path", null] },
] as const;

it.each(REFUSED)("$name is refused by name, and nothing is sent", async ({ body, is }) => {
  served = await Served.at(ANSWER);
  expect(await errorOf(await served.post("/v1/responses", body))).toEqual([400, ...is]);
  expect(served.stage.sent).toEqual([]);
});

it("names of responses and files that this server has not given are not found", async () => {
  served = await Served.at(ANSWER);
  for (const id of ["resp_1", "msg_1", `${ID}=`, "resp_YQpiCmMKZA", "resp_", "%20"]) {
    expect(await errorOf(await served.fetch(`/v1/responses/${id}`))).toEqual([404, "not_found", null]);
    expect(await errorOf(await served.post(`/v1/responses/${id}/cancel`, {}))).toEqual([404, "not_found", null]);
    expect(await errorOf(await served.fetch(`/v1/files/${id}/content`))).toEqual([404, "not_found", null]);
    const body = { input: "go", previous_response_id: id };
    expect(await errorOf(await served.post("/v1/responses", body))).toEqual([404, "not_found", null]);
  }
  const absent = await served.fetch(`/v1/responses/${ID}`);
  expect(await errorOf(absent)).toEqual([404, "not_found", null]);
  const place = await served.fetch(`/v1/responses/${ID}?starting_after=x`);
  expect(await errorOf(place)).toEqual([400, "bad_offset", null]);
});

it.each([
  ["not_found", 404],
  ["conversation_deleted", 404],
  ["unknown_bundle", 400],
  ["rate_limited", 429],
  ["busy", 503],
])("a message that the stage refuses with %s is answered with %i, streamed or not", async (code, status) => {
  served = await Served.at(ANSWER);
  served.stage.refuse("send", code);
  for (const more of [{ stream: true }, {}, { background: true }]) {
    expect(await errorOf(await served.post("/v1/responses", { ...SAID, ...more }))).toEqual([status, code, null]);
  }
});

it("a token that is missing or refused is refused at every address", async () => {
  served = await Served.at(ANSWER);
  const ask = (init: RequestInit) => [
    served.fetch("/v1/models", init),
    served.post("/v1/responses", SAID, init),
    served.fetch(`/v1/responses/${ID}`, init),
    served.post(`/v1/responses/${ID}/cancel`, {}, init),
  ];
  for (const answer of ask({ headers: { Authorization: "" } })) {
    expect(await errorOf(await answer)).toEqual([401, "unauthorized", null]);
  }
  served.stage.gatewayRefuses = 403;
  for (const answer of ask({})) {
    expect((await answer).headers.get("www-authenticate")).toBe("Bearer");
    expect(await errorOf(await answer)).toEqual([401, "unauthorized", null]);
  }
});

// --- What is sent

it("the models are one row, by which a client finds the agent", async () => {
  served = await Served.at(ANSWER);
  const row = { object: "model", created: 0, owned_by: "stepline" };
  expect(await (await served.fetch("/v1/models")).json()).toEqual({
    object: "list",
    data: [{ id: "stepline", ...row }],
  });
  const { data } = await (await served.fetch("/v1/models?bundle=docs")).json();
  expect(data).toEqual([{ id: "docs", ...row }]);
});

it("a model other than the first is a bundle", async () => {
  served = await Served.at(ANSWER);
  const { message, response } = await sentBy({ ...SAID, model: "docs" });
  expect(message).toMatchObject({ conversation: "c-1", text: "go", bundle: "docs" });
  expect(response).toMatchObject({ model: "docs", conversation: { id: "c-1" } });
});

it("a response names its conversation, and the next request continues it", async () => {
  served = await Served.at(ANSWER, ANSWER.length);
  const { message } = await sentBy({ input: "more", previous_response_id: ID });
  expect(message).toMatchObject({ conversation: "c-1", text: "more" });
});

it.each(["X-Conversation-Id", "X-OpenWebUI-Chat-Id"])("the header %s names the conversation", async (name) => {
  served = await Served.at(ANSWER);
  const { message } = await sentBy({ input: "go" }, { [name]: "c-7" });
  expect(message.conversation).toBe("c-7");
});

it("requests without a conversation begin new ones, and a repeated one none", async () => {
  served = await Served.at(ANSWER);
  for (const key of ["a", "a", "", ""]) await sentBy({ input: "go" }, key ? { "Idempotency-Key": key } : {});
  const sent = served.stage.asked("send").map(({ conversation, message_id: id }) => `${conversation} ${id}`);
  expect(new Set(sent).size).toBe(3);
  expect(sent[0]).toBe(sent[1]);
});

it("instructions are in front of the message under a label, and are never part of the agent's", async () => {
  served = await Served.at(ANSWER);
  const input = [
    { role: "system", content: "Be brief.\nMessage:" },
    { role: "developer", content: [{ type: "input_text", text: "Use metres." }] },
    user("How far?"),
  ];
  const { message } = await sentBy({ input, instructions: "Be kind.", conversation: "c-1" });
  expect(message.text).toBe(`Instructions of the application that sends this message:
  Be kind.

  Be brief.
  Message:

  Use metres.

Message:
How far?`);
  expect(Object.keys(message).sort()).toEqual(expect.arrayContaining(["conversation", "message_id", "text"]));
});

const HISTORY = [
  user([
    { type: "input_text", text: "My name is Alice." },
    { type: "input_image", image_url: PIXEL },
  ]),
  { type: "reasoning", id: "rs_1", summary: [] },
  { type: "stepline:plan", id: "plan_1" },
  { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello Alice." }] },
  user("What is my name?"),
];

it("the history of a new conversation is in front of the message, that of a known one is not sent again", async () => {
  served = await Served.at(ANSWER, ANSWER.length);
  const { message } = await sentBy({ input: HISTORY, conversation: "c-1" });
  expect(message.text).toBe("What is my name?");
  await served.end();
  vi.unstubAllGlobals();
  served = await Served.at(ANSWER);
  const { message: first } = await sentBy({ input: HISTORY });
  expect(first.text).toBe(`Earlier messages, as the application has them:
  User: My name is Alice.

  (image)

  Assistant: Hello Alice.

Message:
What is my name?`);
});

it("of a long history the newest messages are sent", async () => {
  served = await Served.at(ANSWER);
  const long = Array.from({ length: 9 }, (_, at) => ({
    role: at % 2 ? "assistant" : "user",
    content: `${at}`.repeat(4000),
  }));
  const { message } = await sentBy({ input: [...long, { role: "assistant", content: "Yes." }, user("So?")] });
  expect(message.text).toContain("(Earlier ones are left out.)");
  expect(message.text).not.toContain("5555");
  expect(message.text).toContain("6666");
  expect(String(message.text).length).toBeLessThan(16_500);
});

it("pictures and files are uploaded with the message that is sent", async () => {
  served = await Served.at(ANSWER);
  const content = [
    { type: "input_text", text: "Compare." },
    { type: "input_image", image_url: PIXEL, detail: "auto" },
    { type: "input_file", file_data: "data:text/plain;base64,aGk=", filename: "a.txt" },
    { type: "input_file", file_data: "aGk=", filename: "b.txt" },
  ];
  const { message } = await sentBy({ input: [user(content)], conversation: "c-1" });
  expect(message).toMatchObject({ text: "Compare.", uploads: ["up_file.png", "up_a.txt", "up_b.txt"] });
});

it("a file that the stage refuses is refused with its code", async () => {
  served = await Served.at(ANSWER);
  const content = [{ type: "input_file", file_data: "aGk=", filename: "a.mp3" }];
  expect(await errorOf(await served.post("/v1/responses", { input: [user(content)] }))).toEqual([
    400,
    "type_not_allowed",
    null,
  ]);
});

it("tools of the caller are left out by name, and parameters of a model are ignored", async () => {
  served = await Served.at(ANSWER);
  const tools = [
    { type: "function", name: "weather", parameters: {} },
    { type: "function", function: { name: "time" } },
    { type: "web_search" },
    1,
  ];
  const more = { temperature: 0, top_p: 0.5, max_output_tokens: 16, store: false, user: "u", metadata: { a: "b" } };
  const { response } = await sentBy({ ...SAID, tools, tool_choice: "auto", reasoning: null, ...more });
  expect(response).toMatchObject({
    tools: [],
    temperature: 1,
    max_output_tokens: null,
    store: true,
    metadata: { a: "b" },
  });
  expect(
    response["stepline:left_out"].map(({ name, param }: { name: string; param: string }) => [param, name]),
  ).toEqual([
    ["tools[0]", "weather"],
    ["tools[1]", "time"],
    ["tools[2]", "web_search"],
    ["tools[3]", ""],
  ]);
});

// --- What is answered

it("a request that neither streams nor is in the background is answered with the whole response", async () => {
  served = await Served.at(ANSWER);
  const asked = served.post("/v1/responses", { ...SAID, metadata: { a: "b" } });
  await eventually(() => expect(served.stage.asked("send")).toHaveLength(1));
  const id = String(served.stage.asked("send")[0]?.message_id);
  served.stage.rename("m1", id);
  await served.stage.play();
  const response = await (await asked).json();
  expect(response).toMatchObject({
    id: responseId({ ...FACTS.name, id }),
    status: "completed",
    output: [{ type: "reasoning" }, { type: "message", content: [{ text: "Hello." }] }],
    usage: { input_tokens: 6783, output_tokens: 59, total_tokens: 6842 },
  });
});

it("a client that leaves stops nothing; a cancellation does, and answers with the end", async () => {
  const story = named("a stop");
  served = await Served.at(story);
  const leave = new AbortController();
  await served.post("/v1/responses", { ...SAID, stream: true }, { signal: leave.signal });
  served.stage.rename("m1", String(served.stage.asked("send")[0]?.message_id));
  await served.stage.play(6);
  leave.abort();
  await eventually(() => expect(served.stage.listeners).toBe(0));
  expect(served.stage.asked("event")).toEqual([]);
  const id = responseId({ ...FACTS.name, id: String(served.stage.asked("send")[0]?.message_id) });
  expect(await (await served.fetch(`/v1/responses/${id}`)).json()).toMatchObject({ status: "in_progress" });
  const cancelled = served.post(`/v1/responses/${id}/cancel`, {});
  await eventually(() => expect(served.stage.asked("event")).toMatchObject([{ kind: "stop" }]));
  await served.stage.play();
  expect(await (await cancelled).json()).toMatchObject({ id, status: "cancelled" });
  expect(await (await served.post(`/v1/responses/${id}/cancel`, {})).json()).toMatchObject({ id, status: "cancelled" });
  expect(served.stage.asked("event")).toHaveLength(1);
});

it("a call that waits for a person ends a response, and the answer begins another one", async () => {
  served = await Served.at(named("a call that is approved"));
  const first = new ResponseReader();
  const asked = await served.post("/v1/responses", { ...SAID, stream: true });
  served.stage.rename("m1", String(served.stage.asked("send")[0]?.message_id));
  const reading = readStream(first, asked);
  await served.stage.playPast("approval.requested");
  expect(await reading).toBe(true);
  const request = first.items.at(-1);
  expect(first.response?.status).toBe("completed");
  expect(request).toMatchObject({ type: "mcp_approval_request", name: "bank.pay", arguments: '{"sum":100}' });
  await served.replace();
  const answer = { type: "mcp_approval_response", approval_request_id: request?.id, approve: true, reason: "fine" };
  const body = { input: [answer], previous_response_id: first.response?.id, stream: true };
  const second = new ResponseReader();
  const answered = await served.post("/v1/responses", body);
  expect(served.stage.asked("approve")).toMatchObject([{ call_id: "tc_e43457e39a37" }]);
  const rest = readStream(second, answered);
  await served.stage.play();
  expect(await rest).toBe(true);
  expect(second.items[0]).toMatchObject({
    type: "mcp_call",
    status: "completed",
    arguments: '{"sum":100}',
    approval_request_id: request?.id,
    output: "paid",
  });
  for (const reader of [first, second]) {
    const late = new ResponseReader();
    late.response = await (await served.fetch(`/v1/responses/${reader.response?.id}`)).json();
    const { previous_response_id: _, ...shown } = late.shown as Readonly<Record<string, unknown>>;
    expect(reader.shown).toMatchObject(shown);
  }
  const again = await served.post("/v1/responses", body);
  expect(await errorOf(again)).toEqual([400, "approval_not_pending", null]);
});

it("a file of a response has an address", async () => {
  const story = named("a plan and two files");
  served = await Served.at(story, story.length);
  const id = responseId(FACTS.name);
  const { output } = await (await served.fetch(`/v1/responses/${id}`)).json();
  const files = output.filter(({ type }: { type: string }) => type === "stepline:file");
  expect(files.map(({ filename }: { filename: string }) => filename)).toEqual(["a.md", "b.md"]);
  const response = await served.fetch(`/v1/files/${files[0].id}/content`, { redirect: "manual" });
  expect(response.status).toBe(302);
  expect(response.headers.get("location")).toMatch(/^https:\/\/files\.example\.com\/fi:.*a\.md$/);
});

it("citations of an answer are annotations at their places", async () => {
  const story = named("a search that is cited");
  served = await Served.at(story, story.length);
  const { output } = await (await served.fetch(`/v1/responses/${ID}`)).json();
  const { text, annotations } = output.at(-1).content[0];
  expect(annotations).toMatchObject([{ type: "url_citation", url: "https://example.com/library/prompt-caching" }]);
  const [{ start_index: start, end_index: end }] = annotations;
  expect([...text].slice(start, end).join("")).toMatch(/^\[Prompt caching.*"S:1"\)$/);
});

it("a message that joins an open turn is answered by that turn, streamed and read again", async () => {
  const story = named("a message that opens the next turn");
  served = await Served.at(story);
  const first = served.post("/v1/responses", { ...SAID, stream: true });
  await eventually(() => expect(served.stage.asked("send")).toHaveLength(1));
  served.stage.rename("m1", String(served.stage.asked("send")[0]?.message_id));
  await served.stage.play(9);
  const second = await served.post("/v1/responses", { ...SAID, input: "more", stream: true });
  served.stage.rename("f0", String(served.stage.asked("send")[1]?.message_id));
  const [one, other, late] = [new ResponseReader(), new ResponseReader(), new ResponseReader()];
  const readings = [readStream(one, await first), readStream(other, second)];
  await served.stage.play();
  expect(await Promise.all(readings)).toEqual([true, true]);
  expect(other.response?.id).not.toBe(one.response?.id);
  expect(other.shown.output).toEqual(one.shown.output);
  late.response = await (await served.fetch(`/v1/responses/${other.response?.id}`)).json();
  expect(late.response).toMatchObject({ id: other.response?.id, status: "completed" });
  expect(late.shown.output).toEqual(one.shown.output);
});

it("a message that no turn reads has failed, with the reason", async () => {
  const last = ANSWER.findLast((frame) => frame.frame === "events") as EventFrame;
  const [event] = last.events as [ClientEvent];
  const data = { message_id: "m9", kind: "followup", reason: "turn_closed", n: last.n + 1, text: "go", chars: 2 };
  const events = [
    { ...event, turn_id: "", type: "chat.conversation.accepted", data },
    { ...event, turn_id: "", type: "chat.step", step: "dropped", data },
  ];
  const story = [...ANSWER, { ...last, n: last.n + 1, prev: last.n, events }];
  served = await Served.at(story, story.length);
  const id = responseId({ ...FACTS.name, id: "m9" });
  const response = await (await served.fetch(`/v1/responses/${id}`)).json();
  expect(response).toMatchObject({ status: "failed", error: { code: "turn_closed" }, output: [] });
  const streamed = await served.fetch(`/v1/responses/${id}?stream=true`);
  expect(await errorOf(streamed)).toEqual([400, "turn_closed", null]);
});

it("a call that is denied has failed with that code in the response of the answer", async () => {
  served = await Served.at(named("a call that is denied"));
  const asked = served.post("/v1/responses", SAID);
  await eventually(() => expect(served.stage.asked("send")).toHaveLength(1));
  served.stage.rename("m1", String(served.stage.asked("send")[0]?.message_id));
  await served.stage.playPast("approval.requested");
  const { id: previous, output } = await (await asked).json();
  const answer = { type: "mcp_approval_response", approval_request_id: output.at(-1).id, approve: false, reason: "no" };
  const denied = served.post("/v1/responses", { input: [answer], previous_response_id: previous });
  await eventually(() => expect(served.stage.asked("deny")).toMatchObject([{ text: "no" }]));
  await served.stage.play();
  const [call] = (await (await denied).json()).output;
  expect(call).toMatchObject({ type: "mcp_call", status: "failed", error: { content: [{ text: "denied" }] } });
});

it("a server that ends refuses the requests that wait for a response", async () => {
  served = await Served.at(ANSWER);
  const asked = served.post("/v1/responses", SAID);
  await eventually(() => expect(served.stage.asked("send")).toHaveLength(1));
  await served.end();
  expect(await errorOf(await asked)).toEqual([503, "ending", null]);
});

it("a turn is stopped while all streams are in use, and its end is read later", async () => {
  served = await Served.at(named("a stop"), 0, { streams: 1 });
  const reading = await served.post("/v1/responses", { ...SAID, stream: true });
  const message = String(served.stage.asked("send")[0]?.message_id);
  served.stage.rename("m1", message);
  await served.stage.play(6);
  const id = responseId({ ...FACTS.name, id: message });
  const cancelled = await served.post(`/v1/responses/${id}/cancel`, {});
  expect(await errorOf(cancelled)).toEqual([503, "too_many_streams", null]);
  expect(served.stage.asked("event")).toMatchObject([{ kind: "stop" }]);
  await served.stage.play();
  await reading.text();
  expect(await (await served.fetch(`/v1/responses/${id}`)).json()).toMatchObject({ id, status: "cancelled" });
});
