/** Events of Open Responses, of every recorded turn, for each client that is cut off, resumes or connects later. */

import { expect, it } from "vitest";
import { type ResponseEvent, restOf } from "../../packages/serve/responses/draft.ts";
import { effectsOf } from "../thread/recordings.ts";
import { eventsOf, ResponseReader, readResponse, textOf } from "./response_reader.ts";
import { distinct, KILLED, STORIES, turnsOf } from "./stories.ts";

const TURNS = [...STORIES, ...KILLED].flatMap(({ name, frames }) =>
  turnsOf(frames).map((turn) => ({ name, frames, turn })),
);

it("each item begins, grows and ends in order, with the text of its pieces", () => {
  for (const { name, frames, turn } of TURNS) {
    const reader = readResponse(eventsOf(effectsOf(frames), turn));
    for (const [at, item] of reader.items.entries()) {
      if (reader.isOver) expect(item.status, `${name}, ${turn}`).not.toBe("in_progress");
      if (textOf(item) !== undefined) expect(reader.texts[at], `${name}, ${turn}`).toBe(textOf(item));
    }
    const output = (reader.response?.output ?? []) as readonly object[];
    for (const item of output) expect(reader.items).toContainEqual(item);
  }
});

it("every cut and every later client ends with the same response", () => {
  for (const { name, frames, turn } of TURNS) {
    const expected = readResponse(eventsOf(effectsOf(frames), turn)).shown;
    for (const [events, cut] of distinct(frames, (effects) => eventsOf(effects, turn))) {
      expect(readResponse(events as readonly ResponseEvent[]).shown, `${name}, ${turn}, ${cut}`).toEqual(expected);
    }
  }
}, 600_000);

it("a reading that continues after a sequence number completes the texts of the first", () => {
  let joined = 0;
  for (const { name, frames, turn } of TURNS) {
    const whole = eventsOf(effectsOf(frames), turn);
    const { shown, isInOrder } = readResponse(whole);
    if (!isInOrder) continue;
    for (let cut = 0; cut < frames.length; cut += 7) {
      const reader = new ResponseReader();
      const first = eventsOf(effectsOf(frames.slice(0, cut)), turn);
      for (const event of first) reader.read(event);
      const late = eventsOf(effectsOf(frames.filter(({ frame }) => frame === "events")), turn);
      if (reader.isOver) continue;
      for (const event of late) {
        const rest = restOf(event, reader.sequence);
        if (rest) reader.read(rest);
      }
      expect(reader.shown, `${name}, ${turn}, ${cut}`).toEqual(shown);
      for (const [at, item] of reader.items.entries()) {
        if (textOf(item) !== undefined) expect(reader.texts[at], `${name}, ${turn}, ${cut}`).toBe(textOf(item));
      }
      joined += 1;
    }
  }
  expect(joined).toBeGreaterThan(50);
}, 600_000);
