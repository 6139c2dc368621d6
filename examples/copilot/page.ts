import { EventType, type Message } from "@ag-ui/client";
import type { SteplineAgent, TurnState } from "@stepline/ag-ui";
import { type Made, partOf, showFiles } from "./files.ts";
import { showInterrupts } from "./interrupts.ts";

export function find<One extends Element>(selector: string): One {
  return document.querySelector(selector) as One;
}

/** Return the text of the field, and empty it. */
function takeText(): string {
  const field = find<HTMLInputElement>("[name=text]");
  const { value } = field;
  field.value = "";
  return value;
}

function line(message: Message): HTMLLIElement {
  const item = document.createElement("li");
  item.dataset.role = message.role;
  const calls = message.role === "assistant" ? (message.toolCalls ?? []) : [];
  const content = typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? "");
  item.textContent = calls.length ? calls.map(({ function: called }) => called.name).join() : content;
  return item;
}

/** Show the messages, the state, the files and the interrupts of an agent, and run it with what the user sends. */
export function showAgent(agent: SteplineAgent): void {
  const run: SteplineAgent["runAgent"] = (parameters) => {
    find("section").replaceChildren();
    return agent.runAgent(parameters);
  };

  agent.subscribe({
    onEvent: ({ event }) => {
      if (event.type === EventType.RUN_ERROR) find("output").textContent = `failed: ${(event as { code?: string }).code}`;
    },
    onMessagesChanged: ({ messages }) => find("ol").replaceChildren(...messages.map(line)),
    onStateChanged: ({ state }) => {
      find("output").textContent = (state as TurnState).turn?.status ?? "new";
    },
    onCustomEvent: ({ event }) => {
      if (event.name === "chat.files") void showFiles(agent, event.value.items as Made[]);
    },
    onRunFinalized: () => showInterrupts(agent, takeText, run),
  });

  const form = find<HTMLFormElement>("form");
  form.onsubmit = async (event) => {
    event.preventDefault();
    const files = [...(find<HTMLInputElement>("[name=files]").files ?? [])];
    const text = takeText();
    const content = files.length ? [{ type: "text" as const, text }, ...(await Promise.all(files.map(partOf)))] : text;
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
    await run();
  };
  find<HTMLButtonElement>("[name=stop]").onclick = () => (agent.isRunning ? agent.abortRun() : void agent.stop());
  find<HTMLButtonElement>("[name=steer]").onclick = () => void agent.steer(takeText());
  find<HTMLButtonElement>("[name=followup]").onclick = () => void agent.followup(takeText());
  form.hidden = false;
}
