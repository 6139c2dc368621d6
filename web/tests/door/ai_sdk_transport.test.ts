import {
  AbstractChat,
  type ChatInit,
  type ChatState,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type UIMessage,
} from "ai";
import { afterEach, expect, it, vi } from "vitest";
import { type SteplineTransport, steplineTransport } from "../../packages/ai-sdk/index.ts";
import { userParts } from "../../packages/ai-sdk/user_message.ts";
import type { ClientEvent, EventFrame } from "../../src/client/index.ts";
import { eventually } from "../eventually.ts";
import { named } from "../thread/recordings.ts";
import { StoryStage } from "./story_stage.ts";

afterEach(() => {
  vi.unstubAllGlobals();
});

/** The chat of the AI SDK, as `useChat` of React, Vue and Svelte has it. */
class Chat extends AbstractChat<UIMessage> {
  constructor(
    init: Omit<ChatInit<UIMessage>, "messages"> & { transport: SteplineTransport },
    messages: UIMessage[] = [],
  ) {
    const state: ChatState<UIMessage> = {
      status: "ready",
      error: undefined,
      messages,
      pushMessage: (message) => {
        state.messages = [...state.messages, message];
      },
      popMessage: () => {
        state.messages = state.messages.slice(0, -1);
      },
      replaceMessage: (index, message) => {
        state.messages = state.messages.with(index, state.snapshot(message));
      },
      snapshot: (thing) => structuredClone(thing),
    };
    super({ ...init, state });
  }

  get answer(): UIMessage | undefined {
    return this.messages.findLast(({ role }) => role === "assistant");
  }

  parts(type: string): UIMessage["parts"] {
    return this.answer?.parts.filter((part) => part.type === type) ?? [];
  }

  get texts(): string[] {
    return this.parts("text").map((part) => (part as { text: string }).text);
  }
}

function connect(stage: StoryStage): SteplineTransport {
  const { url, conversation } = stage;
  return steplineTransport({ url, conversation, token: () => "a.b.c" });
}

function begin(name: string, at = 0): [StoryStage, Chat] {
  const stage = new StoryStage(named(name), at);
  const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses;
  return [stage, new Chat({ transport: connect(stage), sendAutomaticallyWhen })];
}

function asked(text = "go"): { id: string; role: "user"; parts: { type: "text"; text: string }[] } {
  return { id: "m1", role: "user", parts: [{ type: "text", text }] };
}

it("a message is answered, under its own id", async () => {
  const [stage, chat] = begin("an answer");
  const done = chat.sendMessage(asked());
  await stage.play();
  await done;
  expect(stage.asked("send")).toMatchObject([{ message_id: "m1", text: "go" }]);
  expect(chat.texts).toEqual(["Hello."]);
  expect(chat.status).toBe("ready");
  expect(chat.answer?.metadata).toMatchObject({ reason: "complete", followups: ["More?"] });
  expect(stage.listeners).toBe(0);
});

it("a broken connection loses nothing, wherever it breaks", async () => {
  const frames = named("a program");
  for (let at = 1; at < frames.length; at += 7) {
    const [stage, chat] = begin("a program");
    const done = chat.sendMessage(asked());
    await stage.play(at);
    stage.cut();
    await stage.play();
    await done;
    expect(chat.texts, `cut after ${at} frames`).toEqual(["I count.", "Done."]);
  }
});

it("a new page resumes a running turn from its beginning, and has the same message", async () => {
  const [stage, chat] = begin("a program");
  const done = chat.sendMessage(asked());
  await stage.play(20);
  const page = new Chat({ transport: connect(stage) });
  const resumed = page.resumeStream();
  await eventually(() => expect(stage.listeners).toBe(2));
  await stage.play();
  await Promise.all([done, resumed]);
  expect(page.answer).toEqual(chat.answer);
});

it("a page that read a turn in the middle has all of it, also if it ended before the page resumed", async () => {
  const [stage, chat] = begin("a program");
  const done = chat.sendMessage(asked());
  await stage.play(20);
  const transport = connect(stage);
  const page = new Chat({ transport }, await transport.messages());
  await stage.play();
  await done;
  await page.resumeStream();
  expect(page.answer).toEqual(chat.answer);
  expect(await transport.reconnectToStream({ chatId: "c" })).toBeNull();
});

it("an idle conversation has nothing to resume", async () => {
  const [, chat] = begin("an answer", named("an answer").length);
  await chat.resumeStream();
  expect([chat.status, chat.messages]).toEqual(["ready", []]);
  const [, other] = begin("an answer", 0);
  await other.resumeStream();
  expect([other.status, other.messages]).toEqual(["ready", []]);
});

it("a page reads the messages of the conversation", async () => {
  const name = "a message that opens the next turn";
  const [stage] = begin(name, named(name).length);
  const messages = await connect(stage).messages();
  expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
  expect(
    messages.map(({ parts }) => (parts.findLast((part) => part.type === "text") as { text: string }).text),
  ).toEqual([
    "what is new?",
    "One, two, three. One, two, three. One, two, three. One, two, three. ",
    "more",
    "The next turn.",
  ]);
});

it("Stop stops the turn", async () => {
  const [stage, chat] = begin("a stop");
  const done = chat.sendMessage(asked("what is new?"));
  await stage.play(8);
  await eventually(() => expect(chat.texts).toEqual(["One"]));
  await chat.stop();
  await done;
  await eventually(() => expect(stage.asked("event")).toMatchObject([{ kind: "stop" }]));
  await eventually(() => expect(stage.listeners).toBe(0));
});

it("a reader that leaves, and one that is replaced, stop nothing", async () => {
  const [stage, chat] = begin("an answer", 4);
  const first = chat.resumeStream();
  const second = chat.resumeStream();
  await eventually(() => expect(stage.listeners).toBe(1));
  await stage.play();
  await Promise.all([first, second]);
  expect(chat.texts).toEqual(["Hello."]);
  const left = await connect(new StoryStage(named("a stop"), 6)).reconnectToStream({ chatId: "c" });
  await left?.cancel();
  expect(stage.asked("event")).toEqual([]);
});

it("another reader sees that the turn was stopped", async () => {
  const [stage, chat] = begin("a stop", 6);
  const done = chat.resumeStream();
  await stage.play();
  await done;
  expect(chat.texts).toEqual(["One, two, three. One, two, "]);
  expect(chat.answer?.metadata).toMatchObject({ reason: "stop" });
});

it("a steer interrupts the turn, and the message shows where it was read", async () => {
  const [stage, chat] = begin("a steer");
  const done = chat.sendMessage(asked("what is new?"));
  await stage.play(9);
  const steered = chat.sendMessage({ text: "be brief" }, { body: { kind: "steer" } });
  await eventually(() =>
    expect(stage.asked("event")).toMatchObject([{ kind: "steer", payload: { text: "be brief" } }]),
  );
  await stage.play();
  await Promise.all([done, steered]);
  expect(chat.parts("steering-message")).toMatchObject([{ parts: [{ text: "be brief" }] }]);
  expect(chat.answer?.parts.slice(-4).map(({ type }) => type)).toEqual([
    "step-start",
    "steering-message",
    "reasoning",
    "text",
  ]);
  expect(chat.texts.at(-1)).toBe("Brief.");
});

it("a followup is answered by the turn that read it, or by its own turn", async () => {
  const [stage, chat] = begin("a message that opens the next turn");
  const done = chat.sendMessage(asked("what is new?"));
  await stage.play(9);
  const read = chat.sendMessage({ ...asked("more"), id: "f0" });
  await eventually(() => expect(stage.asked("send")).toHaveLength(2));
  await stage.playPast("chat.step");
  const next = chat.sendMessage({ ...asked("more"), id: "f1" });
  await eventually(() => expect(stage.asked("send")).toHaveLength(3));
  await stage.play();
  await Promise.all([done, read, next]);
  const answers = chat.messages.filter(({ role }) => role === "assistant");
  expect(answers).toHaveLength(2);
  expect(answers[0]?.parts.filter((part) => part.type === "steering-message")).toMatchObject([{ id: "f0" }]);
  expect(chat.texts).toEqual(["The next turn."]);
  expect(chat.status).toBe("ready");
});

it("a message that joined the turn of another client shows that turn", async () => {
  const [stage, other] = begin("a message that opens the next turn");
  const page = new Chat({ transport: connect(stage) });
  const done = other.sendMessage(asked("what is new?"));
  await stage.play(9);
  const read = page.sendMessage({ ...asked("more"), id: "f0" });
  await eventually(() => expect(stage.asked("send")).toHaveLength(2));
  await stage.play();
  await Promise.all([done, read]);
  expect(page.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  expect(page.answer?.parts).toEqual(other.answer?.parts);
});

it("a message that is handed back is an error with the reason", async () => {
  const frames = [...named("an answer")];
  const stage = new StoryStage(frames, frames.length);
  const page = new Chat({ transport: connect(stage) });
  const sent = page.sendMessage(asked("be brief"), { body: { kind: "steer" } });
  await eventually(() => expect(stage.asked("event")).toHaveLength(1));
  const { message_id } = stage.asked("event")[0] ?? {};
  const last = frames.findLast((frame) => frame.frame === "events") as EventFrame;
  const [event] = last.events as [ClientEvent];
  const data = { message_id, kind: "steer", reason: "nothing_to_steer", n: last.n + 1, text: "be brief", chars: 8 };
  const events = [
    { ...event, turn_id: "", type: "chat.conversation.accepted", data },
    { ...event, turn_id: "", type: "chat.step", step: "dropped", data },
  ];
  frames.push({ ...last, n: last.n + 1, prev: last.n, events });
  await stage.play();
  await sent;
  expect(page.error?.message).toContain("nothing_to_steer: ");
  expect(stage.listeners).toBe(0);
});

it.each([
  { name: "a call that is approved", approved: true, action: "approve", state: "output-available" },
  { name: "a call that is denied", approved: false, action: "deny", state: "output-denied" },
])("$name continues its message", async ({ name, approved, action, state }) => {
  const [stage, chat] = begin(name);
  const done = chat.sendMessage(asked());
  await stage.playPast("approval.requested");
  await done;
  const [call] = chat.parts("dynamic-tool");
  expect(call).toMatchObject({ toolName: "bank.pay", state: "approval-requested", input: { sum: 100 } });
  const id = (call as { approval: { id: string } }).approval.id;
  await chat.addToolApprovalResponse({ id, approved, ...(!approved && { reason: "Too much." }) });
  await eventually(() => expect(stage.asked(action)).toMatchObject([{ call_id: id }]));
  await stage.play();
  await eventually(() => expect(chat.texts).toEqual(["I pay.", "Done."]));
  expect(chat.parts("dynamic-tool")).toMatchObject([{ state, approval: { approved } }]);
  await eventually(() => expect(chat.status).toBe("ready"));
  expect(chat.messages).toHaveLength(2);
});

it("an approval may change the parameters of its call", async () => {
  const [stage, chat] = begin("a call that is edited");
  const done = chat.sendMessage(asked());
  await stage.playPast("approval.requested");
  await done;
  const [call] = chat.parts("dynamic-tool");
  const id = (call as { approval: { id: string } }).approval.id;
  await chat.addToolApprovalResponse({ id, approved: true, options: { body: { params: { sum: 5 } } } });
  await eventually(() => expect(stage.asked("edit")).toMatchObject([{ call_id: id, params: { sum: 5 } }]));
  await stage.play();
  await eventually(() => expect(chat.texts).toEqual(["I pay.", "Done."]));
  expect(chat.parts("dynamic-tool")).toMatchObject([{ state: "output-denied" }, { input: { sum: 5 } }]);
});

it("files go both ways", async () => {
  const [stage, chat] = begin("a plan and two files");
  const file = {
    type: "file" as const,
    mediaType: "text/plain",
    filename: "a.txt",
    url: "data:text/plain;base64,aGk=",
  };
  const done = chat.sendMessage({ ...asked(), parts: [file, ...asked().parts] });
  await eventually(() => expect(stage.asked("send")).toMatchObject([{ uploads: ["up_a.txt"] }]));
  await stage.play();
  await done;
  const [written] = chat.parts("file") as { url: string; mediaType: string }[];
  expect(written).toMatchObject({
    mediaType: "text/markdown",
    url: expect.stringMatching(/^stepline:fi:.*outputs\/a\.md$/),
  });
  const link = await connect(stage).link(written?.url ?? "");
  expect(link).toMatch(/^https:\/\/files\.example\.com\/fi:.*a\.md$/);
});

it("sources and plans are parts, lanes are passing data", async () => {
  const [stage, chat] = begin("a search that is cited");
  const done = chat.sendMessage(asked());
  await stage.play();
  await done;
  expect(chat.parts("source-url")).toMatchObject([
    { sourceId: "1", url: "https://example.com/library/prompt-caching" },
  ]);
  const planned = new StoryStage(named("a plan and two files"));
  const passing: unknown[] = [];
  const other = new Chat({ transport: connect(planned), onData: (part) => passing.push(part.type) });
  const ended = other.sendMessage(asked());
  await planned.play();
  await ended;
  expect(other.parts("data-stepline-plan")).toMatchObject([{ data: { steps: ["look", "write"] } }]);
  expect(new Set(passing)).toEqual(new Set(["data-stepline-event", "data-stepline-lane", "data-stepline-plan"]));
});

it("a turn that fails is an error with its code", async () => {
  const [stage, chat] = begin("a turn that fails");
  const done = chat.sendMessage(asked());
  await stage.play();
  await done;
  expect(chat.status).toBe("error");
  expect(chat.error?.message).toBe("model_refused: The model's provider refused the request.");
  expect(chat.answer?.metadata).toMatchObject({ code: "model_refused", retryable: false });
});

it("an answer that is asked again is another message of the log", async () => {
  const [stage, chat] = begin("an answer");
  const done = chat.sendMessage(asked());
  await stage.play();
  await done;
  void chat.regenerate();
  await eventually(() => expect(stage.asked("send")).toHaveLength(2));
  const [first, again] = stage.asked("send");
  expect(again?.text).toBe(first?.text);
  expect(again?.message_id).not.toBe(first?.message_id);
});

it("a message that is edited is another message of the log, with the files that the conversation has", async () => {
  const [stage, chat] = begin("an answer");
  const done = chat.sendMessage(asked());
  await stage.play();
  await done;
  const file = { type: "file" as const, mediaType: "text/plain", url: "stepline:fi:turn_1.user.attachments/a.txt" };
  void chat.sendMessage({ parts: [file, { type: "text", text: "shorter" }], messageId: "m1" });
  await eventually(() => expect(stage.asked("send")).toHaveLength(2));
  const [, edited] = stage.asked("send");
  expect(edited).toMatchObject({ text: "shorter" });
  expect(edited?.message_id).not.toBe("m1");
  await chat.stop();
});

it("a message that is stopped before it is sent is not sent", async () => {
  const [stage, chat] = begin("an answer");
  const done = chat.sendMessage(asked());
  await stage.play();
  await done;
  void chat.sendMessage({ text: "too late" });
  await chat.stop();
  expect([chat.status, stage.asked("send").length, stage.asked("event")]).toEqual(["ready", 1, []]);
});

it("a file of a past message has its address", () => {
  const attachments = [
    { filename: "a.csv", mime: "text/csv", size_bytes: 3, path: "fi:turn_1.user.attachments/a.csv" },
    { filename: "b.csv", mime: "text/csv", size_bytes: 3 },
  ];
  expect(userParts({ text: "Read them.", attachments })).toEqual([
    { type: "file", mediaType: "text/csv", filename: "a.csv", url: "stepline:fi:turn_1.user.attachments/a.csv" },
    { type: "file", mediaType: "text/csv", filename: "b.csv", url: "stepline:" },
    { type: "text", text: "Read them." },
  ]);
});

it("a slow reader is bounded in memory, and loses nothing", async () => {
  const piece = "word ".repeat(4);
  const long = named("an answer").flatMap((frame) => {
    if (frame.frame !== "delta" || frame.lane !== "answer.0" || frame.off !== 0) return [frame];
    return Array.from({ length: 5000 }, (_, i) => ({ ...frame, off: i * piece.length, text: piece }));
  });
  const stage = new StoryStage(long);
  const stream = await connect(stage).sendMessages({
    trigger: "submit-message",
    chatId: "c",
    messageId: undefined,
    messages: [asked()],
    abortSignal: undefined,
  });
  await stage.play(4000);
  expect(stage.listeners).toBe(0); // it has paused
  const reader = stream.getReader();
  let deltas = 0;
  let text = "";
  const read = async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      if (next.value.type === "text-start") text = "";
      if (next.value.type !== "text-delta") continue;
      deltas += 1;
      text += next.value.delta;
    }
  };
  const reading = read();
  await stage.play();
  await reading;
  expect(text).toBe("Hello.");
  expect(deltas).toBeGreaterThan(1000);
});
