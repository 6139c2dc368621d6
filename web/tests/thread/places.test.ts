import { describe, expect, test } from "vitest";
import { isReportLane } from "../../src/client/wire.ts";
import known from "../../src/thread/known.json";
import { ELSEWHERE, IN_THREAD, IN_TURN, MOVED, nameOf } from "../../src/thread/places.ts";
import { laneKind } from "../../src/thread/stream.ts";
import { conversations, everything, isDurable, reloadedOf, threadOf } from "./recordings.ts";

/** Notices have no batch, so no recording of a log has them. */
const NOTICES = ["chat.attachments", "rate_limit.attachment_failure"];

/** Reports have no batch either: they are on lanes. */
const REPORTS = ["react.tool.progress"];

const placed = [...Object.keys(IN_TURN), ...Object.keys(IN_THREAD), ...MOVED, ...ELSEWHERE];

const frames = everything.flatMap((one) => one.frames);
const recorded = new Set(frames.filter(isDurable).flatMap((frame) => frame.events.map(nameOf)));
/** The lane of reports: the client core reads its lines, and reports them as events. */
const REPORT = "report.<i>.<i>";
const replaced = (lane: string) => lane.replace(/\d+/, "<i>").replace(/\.(r?\d+)$/, "");
const lanes = new Set(
  frames.flatMap((frame) =>
    frame.frame === "delta" ? [isReportLane(frame.lane) ? REPORT : replaced(frame.lane)] : [],
  ),
);

describe("events", () => {
  test.each(known.events)("%s has an effect", (name) => {
    expect(placed).toContain(name);
  });

  test.each(known.events.filter((name) => ![...NOTICES, ...REPORTS].includes(name)))("%s is in a recording", (name) => {
    expect(recorded).toContain(name);
  });

  test("every event with an effect is sent by the server", () => {
    expect(placed.filter((name) => !known.events.includes(name))).toEqual([]);
  });
});

describe("lanes", () => {
  test.each(known.lanes.filter((lane) => lane !== REPORT))("%s has an effect", (lane) => {
    expect(laneKind(lane.replace("<i>", "0"))).not.toBe("");
  });

  test.each(known.lanes)("%s is in a recording", (lane) => {
    expect(lanes).toContain(lane);
  });

  test("a lane that replaces another one has the same kind", () => {
    expect(laneKind("answer.0.r1")).toBe("answer");
    expect(laneKind("exec.0.status.1")).toBe("status");
  });
});

test("every event and lane of the recordings is known", () => {
  for (const one of conversations) expect(threadOf(one.frames).unknown).toEqual(new Map());
});

test("events of a later release are counted, and change nothing else", () => {
  const event = { type: "moon.phase", route: "r", ts: "", turn_id: "", step: "", status: "update", data: {} };
  const batch = { frame: "events", conversation: "c-1", n: 1, prev: 0, claim: 0, part: 1, parts: 1, piece: "", v: 1 };
  const thread = reloadedOf([{ ...batch, frame: "events", events: [event, event] }]);
  expect(thread.unknown).toEqual(new Map([["moon.phase", 2]]));
  expect(thread.turns).toEqual([]);
});
