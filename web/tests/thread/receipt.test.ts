import { expect, test } from "vitest";
import { parseFrame } from "../../src/client/index.ts";
import { conversationCostOf, wholeReceiptOf } from "../../src/thread/whole_receipt.ts";
import { threadOf } from "./recordings.ts";

const TS = "2026-11-25T09:00:00.000Z";
const TOKENS = {
  input_tokens: 78,
  cache_read_tokens: 0,
  cache_write_5m_tokens: 7_480,
  cache_write_1h_tokens: 0,
  output_tokens: 177,
};
const LINE = { role: "gate.simple", model: "m", calls: 2, ...TOKENS, estimated: true, usd: 0.02, priced: true };

function turnWith(usage: object) {
  const event = (type: string, data: object) => ({ type, route: "", ts: TS, turn_id: "turn_1", data });
  const frame = (n: number, ...events: object[]) =>
    parseFrame({ frame: "events", conversation: "c-1", n, prev: n - 1, events });
  const frames = [
    frame(1, event("chat.start", { turn_id: "turn_1", prompts: [] })),
    frame(2, event("accounting.usage", { ...TOKENS, model: "m", ...usage }), event("chat.complete", { answer: "so" })),
  ];
  return threadOf(frames.filter((one) => one !== null)).turns[0];
}

test("a turn's receipt has the dollars of its accounting event, line by line", () => {
  const receipt = turnWith({ usd: 0.02, priced: true, lines: [LINE] })?.receipt;
  expect(receipt).toMatchObject({ usd: 0.02, priced: true });
  expect(receipt?.lines).toMatchObject([
    {
      role: "gate.simple",
      model: "m",
      calls: 2,
      usd: 0.02,
      priced: true,
      usage: { outputTokens: 177, estimated: true },
    },
  ]);
});

test("a turn of an older release has a receipt without dollars", () => {
  expect(turnWith({})?.receipt).toMatchObject({ usd: 0, priced: false, lines: [], usage: { inputTokens: 78 } });
});

test("the full receipt of a turn is found among those of its conversation", () => {
  const turn = {
    turn_id: "turn_1",
    usd: 0.02,
    priced: true,
    lines: [LINE],
    aws: [{ what: "post", quantity: 12, usd: 0.000012 }],
    aws_usd: 0.000012,
    attempts_unreported: 1,
  };
  const receipts = { prices_of: "2026-11-24", usd: 0.03, priced: false, aws_usd: 0.001, turns: [turn] };
  expect(wholeReceiptOf(receipts, "turn_1")).toMatchObject({
    usd: 0.02,
    lines: [{ role: "gate.simple" }],
    aws: [{ what: "post", quantity: 12, usd: 0.000012 }],
    awsUsd: 0.000012,
    unreported: 1,
    pricesOf: "2026-11-24",
  });
  expect(wholeReceiptOf(receipts, "turn_2")).toMatchObject({ lines: [], aws: [], usd: 0, priced: false });
  expect(conversationCostOf(receipts)).toEqual({ usd: 0.03, priced: false, awsUsd: 0.001 });
});
