import { expect, test } from "vitest";
import { emptyState, type Frame, foldFrames } from "../../src/client/index.ts";
import { emptyThread, foldEffects } from "../../src/thread/index.ts";
import type { Call } from "../../src/thread/thread.ts";
import { named } from "./recordings.ts";

const frames = named("a tool that reports");
const isReport = (frame: Frame) => frame.frame === "delta" && frame.lane.startsWith("report.");
const last = frames.findLastIndex(isReport);

function callAfter(count: number, received = frames): Call {
  const effects = foldFrames(emptyState("c-1"), received.slice(0, count))[1];
  return foldEffects(emptyThread("c-1"), effects).turns[0]?.rounds[0]?.calls[0] as Call;
}

test("a running call shows its newest progress, and its live events", () => {
  const first = frames.findIndex(isReport);
  expect(callAfter(first + 1).live?.progress).toEqual({ done: 1, total: 4, text: "reading" });
  expect(callAfter(last + 1).live?.progress).toEqual({ done: 3, total: 4, text: "writing" });
});

test("the reports of a second attempt replace those of the first", () => {
  expect(callAfter(last + 1).live?.events).toEqual([{ type: "preview", data: { attempt: 2 } }]);
});

test("reports that arrive twice, or after those of a later attempt, change nothing", () => {
  const again = [...frames.slice(0, last + 1), ...frames.filter(isReport)];
  expect(callAfter(again.length, again)).toEqual(callAfter(last + 1));
});

test("the result ends the reports, and brings the events of record", () => {
  const call = callAfter(frames.length);
  expect([call.state, call.live]).toEqual(["ok", null]);
  expect(call.events).toEqual([{ type: "rows", data: { count: 3 } }]);
});
