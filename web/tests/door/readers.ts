/** What clients of each door have of a turn in the end: by the packages that people install, and by our own fold. */

import { AbstractAgent, type BaseEvent, type Event, EventType, type Message, type RunAgentInput } from "@ag-ui/client";
import { isToolUIPart, readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { from, type Observable } from "rxjs";
import { agUi } from "../../packages/ag-ui/mapping.ts";
import type { TurnState } from "../../packages/ag-ui/state.ts";
import type { TurnMetadata } from "../../packages/ai-sdk/index.ts";
import type { Item } from "../../packages/serve/responses/items.ts";
import type { Resource } from "../../packages/serve/responses/resource.ts";
import type { Effect } from "../../src/client/index.ts";
import type { Call, Thread, Turn } from "../../src/thread/thread.ts";
import { type ResponseReader, textOf } from "./response_reader.ts";
import { render } from "./stories.ts";

/** Return the message that a page has after these chunks, and the errors that it reports. */
export async function readMessage(
  chunks: readonly UIMessageChunk[],
): Promise<[message: UIMessage | null, errors: string[]]> {
  const errors: string[] = [];
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let message: UIMessage | null = null;
  const onError = (error: unknown) => errors.push(String((error as Error).message));
  for await (const next of readUIMessageStream({ stream, onError })) message = next;
  return [message, errors];
}

export const BEFORE: readonly Message[] = [{ id: "m1", role: "user", content: "go" }];

/** An agent that sends these events. */
export class RecordedAgent extends AbstractAgent {
  readonly #events: readonly Event[];

  constructor(events: readonly Event[]) {
    super({ initialMessages: [...BEFORE] });
    this.#events = events;
  }

  run(_input: RunAgentInput): Observable<BaseEvent> {
    return from(this.#events);
  }
}

/** Return the events of the run of a turn. */
export function runOf(effects: readonly Effect[], turn: string): readonly Event[] {
  const begin: Event = { type: EventType.RUN_STARTED, threadId: "c-1", runId: "r-1" };
  return [begin, ...render(agUi("c-1", "r-1", BEFORE), effects, turn)];
}

/** Return what an agent has after these events. */
export async function readRun(events: readonly Event[]) {
  const agent = new RecordedAgent(events);
  const { result } = await agent.runAgent();
  const { messages, state, pendingInterrupts: interrupts } = agent;
  return { messages, state: state as TurnState, interrupts, result, end: events.at(-1)?.type };
}

/** What any client shows of a turn: its texts in order, its calls with their results, its newest plan, and how it ended. */
export interface Shown {
  readonly texts: readonly string[];
  readonly thinking: string;
  readonly calls: readonly { readonly tool: string; readonly params: unknown; readonly result: string }[];
  readonly plan: unknown;
  readonly end: string;
}

export function shownByAiSdk([message, errors]: Awaited<ReturnType<typeof readMessage>>): Shown {
  const parts = message?.parts ?? [];
  const metadata = (message?.metadata ?? {}) as TurnMetadata;
  const texts = (is: string) => parts.flatMap((part) => (part.type === is && "text" in part ? part.text : []));
  const calls = parts.filter(isToolUIPart).flatMap((part) => {
    if (part.type !== "dynamic-tool") return [];
    const { state, toolName: tool, input: params } = part;
    const { text = "" } = ("output" in part ? (part.output ?? {}) : {}) as { text?: string };
    // An edited call is a denied one here, with this reason.
    const denied = state === "output-denied" ? (part.approval?.reason === "edited" ? "edited" : "denied") : "";
    return { tool, params, result: state === "output-error" ? (part.errorText ?? "") : denied || text };
  });
  const plan = parts.findLast(({ type }) => type === "data-stepline-plan");
  const end = errors.length ? `error ${metadata.code}` : (metadata.reason ?? "");
  return shown({
    texts: texts("text"),
    thinking: texts("reasoning"),
    calls,
    plan: plan && "data" in plan ? plan.data : null,
    end,
  });
}

export function shownByAgUi(
  { messages, state, result }: Awaited<ReturnType<typeof readRun>>,
  last: Event | undefined,
): Shown {
  const results = new Map<string, string>();
  for (const message of messages) if (message.role === "tool") results.set(message.toolCallId, String(message.content));
  const own = messages.slice(BEFORE.length);
  const calls = own.flatMap((message) => (message.role === "assistant" ? (message.toolCalls ?? []) : []));
  const texts = (role: string) => own.flatMap((one) => (one.role === role && one.content ? String(one.content) : []));
  const reason = (result as { reason?: string } | undefined)?.reason ?? "";
  const failed = last?.type === EventType.RUN_ERROR ? `error ${last.code}` : "";
  const stopped = state.turn?.status === "stopped" ? "stop" : "";
  return shown({
    texts: texts("assistant"),
    thinking: texts("reasoning"),
    calls: calls.map(({ id, function: { name, arguments: params } }) => ({
      tool: name,
      params: JSON.parse(params),
      result: results.get(id) ?? "",
    })),
    plan: state.plan,
    end: failed || stopped || reason,
  });
}

/** Return what a client of Open Responses shows. A call's arguments are its parameters. */
export function shownByResponses({ response }: ResponseReader): Shown {
  const { output = [], status, error } = (response ?? {}) as Partial<Resource> & { error?: { code: string } | null };
  const items = output as readonly (Item & Record<string, string>)[];
  const texts = (type: string) => items.flatMap((item) => (item.type === type ? (textOf(item) ?? "") : []));
  const failure = (item: Item) => (item.error as { content: { text: string }[] } | null)?.content[0]?.text;
  const plan = items.findLast(({ type }) => type === "stepline:plan");
  return shown({
    texts: texts("message"),
    thinking: texts("reasoning"),
    calls: items
      .filter(({ type }) => type === "mcp_call")
      .map((item) => ({
        tool: String(item.name),
        params: JSON.parse(String(item.arguments)),
        result: failure(item) ?? String(item.output ?? ""),
      })),
    plan,
    end: error ? `error ${error.code}` : String(status),
  });
}

/** Return what our own page shows, by its fold. */
export function shownByPage(thread: Thread, turn: Turn): Shown {
  // A round that began again after a take-over is there twice; its answer belongs to the last one.
  const last = new Map(turn.rounds.map((round) => [round.iteration, round]));
  const texts = turn.rounds.flatMap((round) => [
    round.notes.text,
    ...turn.answers.filter(({ iteration }) => last.get(iteration) === round).map(({ text }) => text),
  ]);
  const late = turn.answers.filter(({ iteration }) => !last.has(iteration)).map(({ text }) => text);
  const { outcome } = turn;
  const plan = thread.plans.findLast(({ turnId }) => turnId === turn.turnId);
  return shown({
    texts: [...texts, ...late],
    thinking: turn.rounds.map(({ thinking }) => thinking.text),
    calls: turn.rounds
      .flatMap(({ calls }) => calls)
      .map(({ toolId, params, ...call }) => ({ tool: toolId, params, result: resultOf(call) })),
    plan: plan && { steps: plan.steps.map(({ text }) => text) },
    end: outcome.is === "error" ? `error ${outcome.code}` : outcome.is === "completed" ? outcome.reason : "",
  });
}

function resultOf({ state, preview, code, approval }: Omit<Call, "toolId" | "params">): string {
  if (approval?.state === "edited") return "edited";
  if (state === "ok") return preview;
  return code || (state === "error" || state === "unverified" ? state : "");
}

function shown(all: Omit<Shown, "thinking"> & { thinking: readonly string[] }): Shown {
  const { steps = null } = (all.plan ?? {}) as { steps?: unknown };
  // A turn that fails leaves calls without a result: the page shows them as unverified.
  const calls = all.calls.map((call) => ({ ...call, result: call.result === "unverified" ? "" : call.result }));
  return {
    ...all,
    calls,
    texts: all.texts.filter(Boolean),
    thinking: all.thinking.join("").replace(/\s+/g, ""),
    plan: steps,
  };
}
