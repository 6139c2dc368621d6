import {
  AbstractAgent,
  type BaseEvent,
  type Event,
  EventType,
  type Message,
  type RunAgentInput,
  verifyEvents,
} from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { from, lastValueFrom, type Observable, toArray } from "rxjs";
import { describe, expect, it } from "vitest";
import { agUi } from "../../packages/ag-ui/mapping.ts";
import type { Effect } from "../../src/client/index.ts";
import { effectsOf } from "../thread/recordings.ts";
import { distinct, render, STORIES, turnsOf } from "./stories.ts";

const BEFORE: readonly Message[] = [{ id: "m1", role: "user", content: "go" }];

/** An agent that sends these events. */
class Recorded extends AbstractAgent {
  readonly #events: readonly Event[];

  constructor(events: readonly Event[]) {
    super({ initialMessages: [...BEFORE] });
    this.#events = events;
  }

  run(_input: RunAgentInput): Observable<BaseEvent> {
    return from(this.#events);
  }
}

function eventsOf(effects: readonly Effect[], turn: string): readonly Event[] {
  const begin: Event = { type: EventType.RUN_STARTED, threadId: "c-1", runId: "r-1" };
  return [begin, ...render(agUi("c-1", "r-1", BEFORE), effects, turn)];
}

async function read(events: readonly Event[]): Promise<unknown> {
  const agent = new Recorded(events);
  const { result } = await agent.runAgent();
  const { messages, state, pendingInterrupts } = agent;
  return { messages, state, interrupts: pendingInterrupts, result, end: events.at(-1)?.type };
}

describe.each(STORIES)("$name", ({ frames }) => {
  const turns = turnsOf(frames);

  it("has only events that the published schema and verification accept", async () => {
    for (const turn of turns) {
      const events = eventsOf(effectsOf(frames), turn);
      for (const event of events) expect(EventSchemas.safeParse(event).error, JSON.stringify(event)).toBeUndefined();
      const ended = events.at(-1)?.type === EventType.RUN_FINISHED || events.at(-1)?.type === EventType.RUN_ERROR;
      const verified = await lastValueFrom(from(events as readonly BaseEvent[]).pipe(verifyEvents(), toArray()));
      expect(verified.length).toBe(events.length);
      if (ended) expect(verified.at(-1)).toEqual(events.at(-1));
    }
  });

  it("ends in the same messages for each cut", async () => {
    for (const turn of turns) {
      const whole = await read(eventsOf(effectsOf(frames), turn));
      for (const [events, cut] of distinct(frames, (effects) => eventsOf(effects, turn))) {
        expect(await read(events), cut).toEqual(whole);
      }
    }
  }, 600_000);

  it("keeps the messages and the state as a client has them", async () => {
    for (const turn of turns) {
      const door = agUi("c-1", "r-1", BEFORE);
      const agent = new Recorded(eventsOf(effectsOf(frames), turn));
      await agent.runAgent();
      const { before, step, turn: shown } = stateOf(door, effectsOf(frames), turn);
      expect(agent.messages).toEqual([...before, ...step]);
      expect(agent.state).toEqual(shown);
    }
  });
});

function stateOf(door: ReturnType<typeof agUi>, effects: readonly Effect[], turn: string): typeof door.empty {
  let state = door.empty;
  render(
    {
      ...door,
      render: (_, change) => {
        const [next, events] = door.render(state, change);
        state = next;
        return [next, events];
      },
    },
    effects,
    turn,
  );
  return state;
}
