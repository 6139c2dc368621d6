import { type BaseEvent, EventType, verifyEvents } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { from, lastValueFrom, toArray } from "rxjs";
import { describe, expect, it } from "vitest";
import { agUi } from "../../packages/ag-ui/mapping.ts";
import type { Effect } from "../../src/client/index.ts";
import { effectsOf } from "../thread/recordings.ts";
import { BEFORE, RecordedAgent, readRun, runOf } from "./readers.ts";
import { distinct, render, STORIES, turnsOf } from "./stories.ts";

describe.each(STORIES)("$name", ({ frames }) => {
  const turns = turnsOf(frames);

  it("has only events that the published schema and verification accept", async () => {
    for (const turn of turns) {
      const events = runOf(effectsOf(frames), turn);
      for (const event of events) expect(EventSchemas.safeParse(event).error, JSON.stringify(event)).toBeUndefined();
      const ended = events.at(-1)?.type === EventType.RUN_FINISHED || events.at(-1)?.type === EventType.RUN_ERROR;
      const verified = await lastValueFrom(from(events as readonly BaseEvent[]).pipe(verifyEvents(), toArray()));
      expect(verified.length).toBe(events.length);
      if (ended) expect(verified.at(-1)).toEqual(events.at(-1));
    }
  });

  it("ends in the same messages for each cut", async () => {
    for (const turn of turns) {
      const whole = await readRun(runOf(effectsOf(frames), turn));
      for (const [events, cut] of distinct(frames, (effects) => runOf(effects, turn))) {
        expect(await readRun(events), cut).toEqual(whole);
      }
    }
  }, 600_000);

  it("keeps the messages and the state as a client has them", async () => {
    for (const turn of turns) {
      const door = agUi("c-1", "r-1", BEFORE);
      const agent = new RecordedAgent(runOf(effectsOf(frames), turn));
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
