/** An agent of AG-UI: one conversation of a stage, over its websocket. */

import {
  AbstractAgent,
  type AgentCapabilities,
  type BaseEvent,
  type Event,
  EventType,
  type Message,
  type RunAgentInput,
} from "@ag-ui/client";
import { Observable } from "rxjs";
import type { ClientState } from "../../src/client/index.ts";
import { movePosition, Stage, type StageOptions } from "../../src/door/stage.ts";
import { handOn, streamTurn } from "../../src/door/turn_stream.ts";
import { answerOf, type Begun, beginAnswer, beginConnect, beginMessage } from "./run.ts";

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
      const entry = answerOf(input);
      if (!entry) return beginMessage(this.#stage, input, this.#n, signal);
      const request = this.pendingInterrupts.find(({ id }) => id === entry.interruptId);
      const known = (request?.metadata?.stepline ?? {}) as { n?: number; turn?: string };
      const { n = Math.max(this.#n, 0), turn = "" } = known;
      return beginAnswer(this.#stage, { ...input, state: this.state }, entry, { n, turn });
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
    return this.#observe(input, (signal) => beginConnect(this.#stage, input, known, signal));
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
      const left = new AbortController();
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
        const events = streamTurn(stage, door, { ...following, signal: abort.signal, onState });
        await handOn(events, (event) => subscriber.next(event), left.signal);
      };
      run().then(
        () => subscriber.complete(),
        ({ code = "failed", message = "" }: { code?: string; message?: string }) => {
          subscriber.next({ type: EventType.RUN_ERROR, code, message } as Event);
          subscriber.complete();
        },
      );
      // A subscriber that leaves does not stop the turn.
      return () => left.abort();
    });
  }
}
