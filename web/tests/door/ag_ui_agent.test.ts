import { type Event, EventType, type Message } from "@ag-ui/client";
import { afterEach, expect, it, vi } from "vitest";
import { SteplineAgent } from "../../packages/ag-ui/index.ts";
import { eventually } from "../eventually.ts";
import { named } from "../thread/recordings.ts";
import { StoryStage } from "./story_stage.ts";

afterEach(() => {
  vi.unstubAllGlobals();
});

function connect(stage: StoryStage): SteplineAgent {
  const { url, conversation } = stage;
  return new SteplineAgent({ url, conversation, token: () => "a.b.c" });
}

function begin(name: string, at = 0, text = "go"): [StoryStage, SteplineAgent, Event[]] {
  const stage = new StoryStage(named(name), at);
  const agent = connect(stage);
  agent.addMessage({ id: "m1", role: "user", content: text });
  const events: Event[] = [];
  agent.subscribe({ onEvent: ({ event }) => void events.push(event as Event) });
  return [stage, agent, events];
}

function texts(messages: readonly Message[]): unknown[] {
  return messages.filter(({ role, content }) => role === "assistant" && content).map(({ content }) => content);
}

it("a message is answered, under its own id", async () => {
  const [stage, agent, events] = begin("an answer");
  const done = agent.runAgent();
  await stage.play();
  const { result } = await done;
  expect(stage.asked("send")).toMatchObject([{ message_id: "m1", text: "go" }]);
  expect(texts(agent.messages)).toEqual(["Hello."]);
  expect(result).toEqual({ answer: "Hello.", reason: "complete", followups: ["More?"] });
  expect(events.at(-1)?.metadata).toEqual({ stepline: { n: 3 } });
  expect(stage.listeners).toBe(0);
});

it("a broken connection loses nothing", async () => {
  const [stage, agent] = begin("a program");
  const done = agent.runAgent();
  await stage.play(14);
  stage.cut();
  await stage.play();
  await done;
  expect(texts(agent.messages)).toEqual(["I count.", "Done."]);
});

it("a new page has the same messages, before and after the turn has ended", async () => {
  const [stage, agent] = begin("a program");
  const done = agent.runAgent();
  await stage.play(20);
  const page = connect(stage);
  const resumed = page.connectAgent();
  await eventually(() => expect(stage.listeners).toBe(2));
  await stage.play();
  await Promise.all([done, resumed]);
  expect(page.messages).toEqual(agent.messages);
  expect(page.state).toEqual(agent.state);
  const late = connect(stage);
  await late.connectAgent();
  expect(late.messages).toEqual(agent.messages);
  expect(late.state).toEqual(agent.state);
  await page.connectAgent();
  expect(page.messages).toEqual(agent.messages);
});

it("an aborted run stops the turn, and a subscriber that leaves does not", async () => {
  const [stage, agent, events] = begin("a stop", 0, "what is new?");
  const left = agent.runAgent();
  await stage.play(6);
  await eventually(() => expect(texts(agent.messages)).toEqual([]));
  await agent.detachActiveRun();
  await left;
  expect(stage.asked("event")).toEqual([]);
  const done = agent.connectAgent();
  await eventually(() => expect(stage.listeners).toBe(1));
  await stage.play(8);
  agent.abortRun();
  await done;
  expect(events.at(-1)).toMatchObject({ type: EventType.RUN_FINISHED, outcome: { type: "cancelled" } });
  expect(agent.state).toMatchObject({ turn: { status: "stopped" } });
  await eventually(() => expect(stage.asked("event")).toMatchObject([{ kind: "stop" }]));
});

it("another reader sees that the turn was cancelled", async () => {
  const [stage, agent, events] = begin("a stop", 6, "what is new?");
  const done = agent.connectAgent();
  await stage.play();
  await done;
  expect(events.at(-1)).toMatchObject({ type: EventType.RUN_FINISHED, outcome: { type: "cancelled" } });
});

it("a steer is a message of the user within the run", async () => {
  const [stage, agent] = begin("a steer", 0, "what is new?");
  const done = agent.runAgent();
  await stage.play(9);
  await agent.steer("be brief");
  await stage.play();
  await done;
  expect(stage.asked("event")).toMatchObject([{ kind: "steer", payload: { text: "be brief" } }]);
  expect(agent.messages.filter(({ role }) => role === "user").map(({ content }) => content)).toEqual([
    "what is new?",
    "be brief",
  ]);
  expect(texts(agent.messages).at(-1)).toBe("Brief.");
});

it.each([
  { name: "a call that is approved", payload: { approved: true }, action: "approve", results: ["paid"] },
  {
    name: "a call that is denied",
    payload: { approved: false, text: "Too much." },
    action: "deny",
    results: ["denied"],
  },
  {
    name: "a call that is edited",
    payload: { approved: true, params: { sum: 5 } },
    action: "edit",
    results: ["edited", "paid"],
  },
])("$name is an interrupt that a run answers", async ({ name, payload, action, results }) => {
  const [stage, agent, events] = begin(name);
  const asked = agent.runAgent();
  await stage.playPast("approval.requested");
  await asked;
  expect(agent.state).toMatchObject({ turn: { status: "waiting" }, approvals: [{ params: { sum: 100 } }] });
  const [interrupt] = agent.pendingInterrupts;
  expect(interrupt).toMatchObject({ reason: "tool_approval", metadata: { stepline: { params: { sum: 100 } } } });
  expect(Object.keys(interrupt ?? {})).toContain("expiresAt");
  const resume = [{ interruptId: interrupt?.id ?? "", status: "resolved" as const, payload }];
  // The story is older than the time until which its call could be answered.
  agent.pendingInterrupts = agent.pendingInterrupts.map((one) => ({ ...one, expiresAt: "2100-01-01T00:00:00Z" }));
  const done = agent.runAgent({ resume });
  await eventually(() => expect(stage.asked(action)).toMatchObject([{ call_id: interrupt?.id }]));
  await stage.play();
  await done;
  expect(agent.messages.filter(({ role }) => role === "tool").map(({ content }) => content)).toEqual(results);
  expect(texts(agent.messages)).toEqual(["I pay.", "Done."]);
  expect(events.at(-1)).toMatchObject({ type: EventType.RUN_FINISHED, outcome: { type: "success" } });
  expect(agent.state).toMatchObject({ turn: { status: "complete" }, approvals: [] });
});

it("an interrupt that another client has answered is gone after a new connection", async () => {
  const [stage, agent] = begin("a call that is approved");
  const asked = agent.runAgent();
  await stage.playPast("approval.requested");
  await asked;
  expect(agent.pendingInterrupts).toHaveLength(1);
  await agent.connectAgent();
  expect(agent.pendingInterrupts).toHaveLength(1);
  const other = connect(stage);
  await other.connectAgent();
  other.pendingInterrupts = other.pendingInterrupts.map((one) => ({ ...one, expiresAt: "2100-01-01T00:00:00Z" }));
  const interruptId = other.pendingInterrupts[0]?.id ?? "";
  const answered = other.runAgent({ resume: [{ interruptId, status: "resolved", payload: { approved: true } }] });
  await stage.play();
  await answered;
  await agent.connectAgent();
  expect(agent.pendingInterrupts).toEqual([]);
  expect(texts(agent.messages)).toEqual(["I pay.", "Done."]);
});

it("files go both ways, a plan is an activity, sources are custom events", async () => {
  const [stage, agent, events] = begin("a plan and two files");
  const source = { type: "data" as const, value: "aGk=", mimeType: "text/plain" };
  agent.setMessages([
    {
      id: "m1",
      role: "user",
      content: [
        { type: "text", text: "go" },
        { type: "document", source, metadata: { filename: "a.txt" } },
      ],
    },
  ]);
  const done = agent.runAgent();
  await eventually(() => expect(stage.asked("send")).toMatchObject([{ text: "go", uploads: ["up_a.txt"] }]));
  await stage.play();
  await done;
  const [plan] = agent.messages.filter(({ role }) => role === "activity");
  expect(plan).toMatchObject({ activityType: "PLAN" });
  expect(agent.state).toMatchObject({ turn: { status: "complete" }, plan: plan?.content });
  const files = events.filter((event) => event.type === EventType.CUSTOM && event.name === "chat.files");
  expect(files).toHaveLength(2);
  const [page, seen] = [connect(stage), [] as Event[]];
  page.subscribe({ onCustomEvent: ({ event }) => void seen.push(event) });
  await page.connectAgent();
  expect(seen).toEqual(files);
  expect(page.state).toEqual(agent.state);
  const path = (files[0] as { value: { items: { logical_path: string }[] } }).value.items[0]?.logical_path ?? "";
  expect(await page.link(path)).toContain(path);
});

it("a failed turn is an error of the run with its code", async () => {
  const [stage, agent, events] = begin("a turn that fails");
  const done = agent.runAgent();
  await stage.play();
  await done;
  expect(events.at(-1)).toMatchObject({ type: EventType.RUN_ERROR, code: "model_refused" });
  expect(agent.state).toMatchObject({ turn: { status: "failed" } });
});

it("a clone is an agent of its own, with the same subscribers and state", async () => {
  const [stage, agent, events] = begin("an answer");
  const clone = agent.clone();
  expect(clone).toMatchObject({ threadId: agent.threadId, messages: agent.messages, state: agent.state });
  const done = clone.runAgent();
  await stage.play();
  await done;
  expect(events.at(-1)).toMatchObject({ type: EventType.RUN_FINISHED });
  expect(texts(agent.messages)).toEqual([]);
});

it("another thread is another conversation", async () => {
  const [stage, agent, events] = begin("an answer");
  agent.threadId = "c-2";
  void agent.runAgent();
  await eventually(() => expect(stage.asked("send")).toMatchObject([{ conversation: "c-2" }]));
  expect(events).toMatchObject([{ type: EventType.RUN_STARTED, threadId: "c-2" }]);
  await agent.detachActiveRun();
});

it("its capabilities name what the stage has", async () => {
  const [, agent] = begin("an answer");
  expect(await agent.getCapabilities()).toMatchObject({
    transport: { resumable: true },
    humanInTheLoop: { approveWithEdits: true },
  });
});
