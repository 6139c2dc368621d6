import { describe, expect, it } from "vitest";
import { costsOf, figuresOf, readShare, sumFigures } from "../../src/inspect/figures.ts";
import { figuresOfRound } from "../../src/inspect/rounds.tsx";
import { placeRounds } from "../../src/inspect/rounds_list.ts";
import { load, NAMES, receiptsOf, roundsOf } from "./load.ts";

it("number the turns of a fork after those of its origin", () => {
  const receipts = receiptsOf(load("reduced"));
  const [first] = costsOf({ ...receipts, turns_before: 4 });
  expect(first?.whole.turn).toBe(5);
});

describe.each(NAMES)("the figures of the conversation %s", (name) => {
  const data = load(name);
  const turns = costsOf(receiptsOf(data));

  it("equal the usage event of each turn, summed over its calls", () => {
    expect(turns.length).toBeGreaterThan(3);
    for (const turn of turns) {
      const event = data.usage[turn.whole.turnId];
      expect(event).toBeDefined();
      for (const figures of [sumFigures(turn.calls.map((call) => call.figures)), turn.whole.figures]) {
        expect({
          input_tokens: figures.plain,
          cache_read_tokens: figures.read,
          written: figures.written,
          output_tokens: figures.output,
          total_input_tokens: figures.input,
        }).toEqual({
          input_tokens: event?.input_tokens,
          cache_read_tokens: event?.cache_read_tokens,
          written: (event?.cache_write_5m_tokens ?? 0) + (event?.cache_write_1h_tokens ?? 0),
          output_tokens: event?.output_tokens,
          total_input_tokens: event?.total_input_tokens,
        });
        expect(Math.round(figures.weighted)).toBe(event?.weighted_tokens);
      }
    }
  });

  it("count the rounds of each turn", () => {
    const counts = turns.map((turn) => turn.calls.filter((call) => call.kind === "round").length);
    expect(counts).toEqual(turns.map((turn) => data.usage[turn.whole.turnId]?.rounds));
  });

  it("match those of the rounds if every call succeeded", () => {
    const calls = turns.flatMap((turn) => turn.calls.filter((call) => call.kind === "round"));
    const placed = placeRounds(roundsOf(data));
    expect(placed.map(figuresOfRound)).toEqual(calls.map((call) => call.figures));
  });

  it("add up to those of the conversation", () => {
    const whole = figuresOf(receiptsOf(data).tokens);
    expect(sumFigures(turns.map((turn) => turn.whole.figures)).input).toBe(whole.input);
  });
});

it("name a call outside the rounds by its purpose", () => {
  const kinds = costsOf(receiptsOf(load("reduced"))).flatMap((turn) => turn.calls.map((call) => call.kind));
  expect(kinds).toContain("summary");
});

it("have a share of zero if nothing was read", () => {
  expect(readShare(sumFigures([]))).toBe(0);
});
