/** A page of a client of AG-UI: the messages, the state, the files and the open approvals of one conversation. */

import { type ContentPart, type Event, EventType, type Message } from "@ag-ui/client";
import { SteplineAgent, type SteplineAgentOptions, type TurnState, type Verdict } from "@stepline/ag-ui";

declare global {
  interface Window {
    readonly options: SteplineAgentOptions;
    readonly events: Event[];
  }
}

const agent = new SteplineAgent(window.options);
Object.assign(window, { agent, events: [] });

function find<One extends Element>(selector: string): One {
  return document.querySelector(selector) as One;
}

function line(message: Message): HTMLLIElement {
  const item = document.createElement("li");
  item.dataset.role = message.role;
  const calls = message.role === "assistant" ? (message.toolCalls ?? []) : [];
  const content = typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? "");
  item.textContent = calls.length ? calls.map(({ function: called }) => called.name).join() : content;
  return item;
}

function button(name: string, press: () => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.textContent = name;
  made.onclick = press;
  return made;
}

function showApprovals(): void {
  const answer = (payload: Verdict) => {
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved" as const, payload }));
    void run({ resume });
  };
  const buttons = agent.pendingInterrupts.flatMap(({ message = "" }) => [
    message,
    button("Approve", () => answer({ approved: true })),
    button("Deny", () => answer({ approved: false, text: text() })),
    button("Edit", () => answer({ approved: true, params: JSON.parse(text()) })),
  ]);
  find("section").replaceChildren(...buttons);
}

/** Show the files of an event with the addresses that they have now. */
async function showFiles(items: readonly { filename: string; logical_path: string }[]): Promise<void> {
  for (const { filename, logical_path: path } of items) {
    const link = document.createElement("a");
    link.textContent = filename;
    link.href = await agent.link(path);
    const item = document.createElement("li");
    item.append(link);
    find("ul").append(item);
  }
}

agent.subscribe({
  onEvent: ({ event }) => {
    window.events.push(event as Event);
    if (event.type === EventType.RUN_ERROR) find("output").textContent = `failed: ${(event as { code?: string }).code}`;
  },
  onMessagesChanged: ({ messages }) => find("ol").replaceChildren(...messages.map(line)),
  onStateChanged: ({ state }) => {
    find("output").textContent = (state as TurnState).turn?.status ?? "new";
  },
  onCustomEvent: ({ event }) => {
    if (event.name === "chat.files") void showFiles(event.value.items);
  },
  onRunFinalized: showApprovals,
});

function run(parameters?: Parameters<SteplineAgent["runAgent"]>[0]): Promise<unknown> {
  find("section").replaceChildren();
  return agent.runAgent(parameters);
}

function text(): string {
  const field = find<HTMLInputElement>("[name=text]");
  const { value } = field;
  field.value = "";
  return value;
}

async function partOf(file: File): Promise<ContentPart> {
  const bytes = Array.from(new Uint8Array(await file.arrayBuffer()), (byte) => String.fromCharCode(byte)).join("");
  const source = { type: "data" as const, value: btoa(bytes), mimeType: file.type };
  return { type: "document", source, metadata: { filename: file.name } };
}

find<HTMLFormElement>("form").onsubmit = async (event) => {
  event.preventDefault();
  const files = [...(find<HTMLInputElement>("[name=files]").files ?? [])];
  const said = text();
  const content = files.length ? [{ type: "text" as const, text: said }, ...(await Promise.all(files.map(partOf)))] : said;
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  await run();
};
find<HTMLButtonElement>("[name=stop]").onclick = () => (agent.isRunning ? agent.abortRun() : void agent.stop());
find<HTMLButtonElement>("[name=steer]").onclick = () => void agent.steer(text());
find<HTMLButtonElement>("[name=followup]").onclick = () => void agent.followup(text());

await agent.connectAgent();
document.body.dataset.connected = "yes";
