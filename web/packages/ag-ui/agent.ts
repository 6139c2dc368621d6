/** An agent of AG-UI: one conversation of a stage, over its websocket. */

import {
  AbstractAgent,
  type AgentCapabilities,
  type BaseEvent,
  type ContentPart,
  type Event,
  EventType,
  type Message,
  type RunAgentInput,
} from "@ag-ui/client";
import { Observable } from "rxjs";
import { ClientError, type ClientState, type Effect, emptyState, type Session } from "../../src/client/index.ts";
import { checkPosition, movePosition, Stage, type StageOptions } from "../../src/door/stage.ts";
import { foldTurn, follow, followFrom } from "../../src/door/turn_parts.ts";
import { type Door, type Following, streamTurn } from "../../src/door/turn_stream.ts";
import { decodeBase64 } from "../../src/door/upload.ts";
import { agUi } from "./mapping.ts";
import { type RunMessages, snapshots } from "./placing.ts";
import { NO_TURN, stateSnapshot, type TurnState, waitingState } from "./state.ts";

/** How an interrupt is answered: a call that may run, perhaps with other parameters, or that may not, with a reason. */
export interface Verdict {
  readonly approved: boolean;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly text?: string;
}

export interface SteplineAgentOptions extends StageOptions {
  readonly agentId?: string;
  readonly description?: string;
  readonly initialMessages?: Message[];
}

export class SteplineAgent extends AbstractAgent {
  readonly #options: SteplineAgentOptions;
  #of: Stage | null = null;
  #abort: AbortController | null = null;
  /** The newest batch that a run of this agent has received; -1 before the first. */
  #n = -1;

  constructor(options: SteplineAgentOptions) {
    super({ ...options, threadId: options.conversation });
    this.#options = options;
  }

  /** The stage of the thread, which is the conversation; clients may change it between runs. */
  get #stage(): Stage {
    if (this.#of?.conversation !== this.threadId) {
      this.#n = -1;
      this.#of = new Stage({ ...this.#options, conversation: this.threadId });
    }
    return this.#of as Stage;
  }

  override async getCapabilities(): Promise<AgentCapabilities> {
    return {
      transport: { streaming: true, websocket: true, resumable: true },
      humanInTheLoop: { supported: true, approvals: true, interrupts: true, approveWithEdits: true },
      reasoning: { supported: true, streaming: true },
      state: { snapshots: true, deltas: false, persistentState: true },
    };
  }

  /** Send the last message of the user, or answer an interrupt. */
  run(input: RunAgentInput): Observable<BaseEvent> {
    return this.#observe(input, async (signal) => {
      const [entry, further] = input.resume ?? [];
      if (further) throw new ClientError("bad_message", "a turn waits for one answer at a time");
      if (entry) return this.#answer(entry.interruptId, entry.status === "resolved" ? entry.payload : null, input);
      const message = input.messages.at(-1);
      if (message?.role !== "user") throw new ClientError("unsupported_message", "a message of the user is missing");
      const [text, uploads] = await this.#read(message.content);
      if (this.#n < 0) this.#n = (await this.#stage.readTurns(1, signal))?.state.cursor ?? 0;
      const send = (session: Session) => session.say(text, { messageId: message.id, uploads });
      const following = { state: emptyState(this.threadId, this.#n), cursor: follow({ message: message.id }), send };
      return { following, door: agUi(input.threadId, input.runId, input.messages), first: [] };
    });
  }

  /** Restate the conversation, open interrupts included: another client may have answered those that this agent has. */
  override connectAgent(
    ...given: Parameters<AbstractAgent["connectAgent"]>
  ): ReturnType<AbstractAgent["connectAgent"]> {
    this.pendingInterrupts = [];
    return super.connectAgent(...given);
  }

  /** Restate the messages of the conversation, and continue the open turn if there is one. */
  protected override connect(input: RunAgentInput): Observable<BaseEvent> {
    const known = [...this.messages];
    return this.#observe(input, async (signal) => {
      const past = await this.#stage.readTurns(20, signal);
      const { effects = [], state = emptyState(this.threadId) } = past ?? {};
      const turn = state.open ? state.turnId : "";
      const [before, latest, shown] = readTurns(effects, turn);
      const messages: Event = { type: EventType.MESSAGES_SNAPSHOT, messages: before };
      const first = [...snapshots([], known), messages, ...shown, ...(turn ? [] : [stateSnapshot(latest)])];
      const door = agUi(input.threadId, input.runId, before);
      return { following: turn ? { effects, state, cursor: follow({ turn }) } : null, door, first };
    });
  }

  /** Interrupt the open turn, and let it finish with this text. Throws ClientError with the code of a refusal. */
  steer(text: string): Promise<void> {
    return this.#stage.send((session) => session.steer(text));
  }

  /** Send a message to the open turn, which reads it. Throws ClientError with the code of a refusal. */
  followup(text: string): Promise<void> {
    return this.#stage.send((session) => session.say(text));
  }

  /** Stop the open turn, also one that waits for a person. Throws ClientError with the code of a refusal. */
  stop(): Promise<void> {
    return this.#stage.send((session) => session.stop());
  }

  /** Return a short-lived address of a file, by the `logical_path` of an item of `chat.files`. Throws ApiError. */
  async link(path: string): Promise<string> {
    return (await this.#stage.link(path)).url;
  }

  /** Stop the turn of the active run. */
  override abortRun(): void {
    this.#abort?.abort();
  }

  override clone(): SteplineAgent {
    return Object.assign(new SteplineAgent(this.#options), super.clone());
  }

  #observe(input: RunAgentInput, begin: (signal: AbortSignal) => Promise<Begun>): Observable<BaseEvent> {
    return new Observable<BaseEvent>((subscriber) => {
      const abort = new AbortController();
      this.#abort = abort;
      let reader: ReadableStreamDefaultReader<Event> | null = null;
      const run = async () => {
        subscriber.next({ type: EventType.RUN_STARTED, threadId: input.threadId, runId: input.runId } as Event);
        const { following, door, first } = await begin(abort.signal);
        for (const event of first) subscriber.next(event);
        if (!following) {
          subscriber.next({ type: EventType.RUN_FINISHED, threadId: input.threadId, runId: input.runId } as Event);
          return;
        }
        const stage = this.#stage;
        const onState = ({ cursor }: ClientState) => {
          if (stage === this.#of) this.#n = movePosition(this.#n, cursor);
        };
        reader = streamTurn(stage, door, { ...following, signal: abort.signal, onState }).getReader();
        for (let next = await reader.read(); !next.done; next = await reader.read()) subscriber.next(next.value);
      };
      run().then(
        () => subscriber.complete(),
        ({ code = "failed", message = "" }: { code?: string; message?: string }) => {
          subscriber.next({ type: EventType.RUN_ERROR, code, message } as Event);
          subscriber.complete();
        },
      );
      // A subscriber that leaves does not stop the turn.
      return () => void reader?.cancel();
    });
  }

  /** Answer a request for an approval; `null` denies it. The messages are restated, since they have its call. */
  #answer(callId: string, verdict: Verdict | null, input: RunAgentInput): Begun {
    const request = this.pendingInterrupts.find(({ id }) => id === callId);
    const { n = Math.max(this.#n, 0), turn = "" } = (request?.metadata?.stepline ?? {}) as {
      n?: number;
      turn?: string;
    };
    const { approved, params, text = "" } = verdict ?? { approved: false };
    if (typeof approved !== "boolean")
      throw new ClientError("bad_message", "the answer to an interrupt has no `approved`");
    const action = approved ? (params ? "edit" : "approve") : "deny";
    const send = (session: Session) => session.answer(action, callId, { params: params ?? {}, text });
    const past = emptyState(this.threadId, checkPosition(n));
    const state: ClientState = { ...past, open: true, turnId: turn, approval: callId };
    const door = agUi(input.threadId, input.runId, input.messages, waitingState(turn, this.state));
    return { following: { state, cursor: followFrom(turn), send }, door, first: snapshots(input.messages, []) };
  }

  /** Read a message's text, and upload its files. */
  async #read(content: string | ContentPart[]): Promise<[text: string, uploads: readonly string[]]> {
    if (typeof content === "string") return [content, []];
    const texts: string[] = [];
    const uploads: Promise<string>[] = [];
    for (const part of content) {
      if (part.type === "text") texts.push(part.text);
      else if (part.source.type === "data") uploads.push(this.#upload(part.source.value, part.metadata));
      else throw new ClientError("unsupported_part", `a message cannot have this part: ${part.type} by its address`);
    }
    return [texts.join("\n\n"), await Promise.all(uploads)];
  }

  #upload(base64: string, metadata: unknown): Promise<string> {
    const { filename = "file" } = (metadata ?? {}) as { filename?: string };
    return this.#stage.upload(new Blob([decodeBase64(base64)]), filename);
  }
}

interface Begun {
  readonly following: Following | null;
  readonly door: Door<Event, RunMessages>;
  readonly first: readonly Event[];
}

/**
 * Return the messages of past turns up to the open one, each turn's prompts before what it said, the last state, and the
 * files and sources of these turns, which are no messages.
 */
function readTurns(
  effects: readonly Effect[],
  open: string,
): [messages: Message[], turn: TurnState, shown: readonly Event[]] {
  const messages: Message[] = [];
  const shown: Event[] = [];
  let latest = NO_TURN;
  const accepted = new Map<number, Message>();
  for (const effect of effects) {
    if (effect.kind !== "eventsApplied") continue;
    for (const { type, data, turn_id: turn } of effect.events) {
      if (type === "chat.conversation.accepted") {
        accepted.set(effect.n, { id: String(data.message_id), role: "user", content: String(data.text) });
      }
      if (type !== "chat.start") continue;
      messages.push(...(data.prompts as readonly number[]).flatMap((n) => accepted.get(n) ?? []));
      if (turn === open) continue;
      const [read, events] = readTurn(effects, turn);
      messages.push(...read.before, ...read.step);
      shown.push(...events.filter((event) => event.type === EventType.CUSTOM && FOUND.has(event.name)));
      latest = read.turn;
    }
  }
  return [messages, latest, shown];
}

const FOUND = new Set(["chat.files", "chat.citations"]);

function readTurn(effects: readonly Effect[], turn: string): [RunMessages, Event[]] {
  const door = agUi("", "", []);
  let [cursor, state] = [follow({ turn }), door.empty];
  const events: Event[] = [];
  for (const effect of effects) {
    const [next, changes] = foldTurn(cursor, effect);
    cursor = next;
    for (const change of changes) {
      const [rendered, more] = door.render(state, change);
      state = rendered;
      events.push(...more);
    }
  }
  return [state, events];
}
