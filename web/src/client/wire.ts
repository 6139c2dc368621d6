/**
 * Frames and lines of the control lane, read from JSON. Absent fields get their defaults.
 *
 * Source: docs/reference/messages.md, stepline/model/wire/event.py.
 */

import { ClientError } from "./failure.ts";
import {
  type ClientEvent,
  type ErrorFrame,
  EVENT,
  FORMAT,
  FRAMES,
  type Frame,
  LANES,
  type LaneClosed,
  type LaneOpened,
  REPORT_LANE,
} from "./frames.ts";
import { type Fields, int, list, object, text } from "./shape.ts";

/**
 * Decode a frame; return null for a kind that this release does not know.
 *
 * Text that is not a frame is an error of the gateway itself, sent when the function that serves it fails. Its code is
 * `gateway`, and it may apply to any message. Throws ClientError `format_newer`.
 */
export function readFrame(json: string): Frame | null {
  try {
    return parseFrame(JSON.parse(json));
  } catch (error) {
    if (error instanceof ClientError) throw error;
    return errorFrame({ code: "gateway", message: json.slice(0, 300), retryable: true });
  }
}

/**
 * Read a frame from decoded JSON, such as one of a page of past events; null for a kind that this release does not
 * know.
 *
 * Throws TypeError if it is not a frame, ClientError `format_newer`.
 */
export function parseFrame(value: unknown): Frame | null {
  const fields = object(value);
  const frame = text(fields.frame, "frame");
  if (frame === "events") refuseNewer(fields);
  if (!Object.hasOwn(FRAMES, frame)) return null;
  return { frame, ...FRAMES[frame as Frame["frame"]](fields) } as Frame;
}

/** Return an error frame as the server would send it. */
export function errorFrame(given: Pick<ErrorFrame, "code" | "message"> & Partial<ErrorFrame>): ErrorFrame {
  return { frame: "error", message_id: "", conversation: "", retry_after_s: 0, retryable: false, ...given };
}

/** Decode the events of a batch that arrived in parts. Throws SyntaxError, TypeError. */
export function joinPieces(pieces: readonly string[]): readonly ClientEvent[] {
  return list(EVENT)(JSON.parse(pieces.join(""))) as readonly unknown[] as readonly ClientEvent[];
}

/** Decode one line of the control lane; null for a line from a later release. */
export function readControlLine(line: string): LaneOpened | LaneClosed | null {
  try {
    const fields = object(JSON.parse(line));
    const does = text(fields.do, "do");
    if (!Object.hasOwn(LANES, does)) return null;
    return { do: does, ...LANES[does as keyof typeof LANES](fields) } as LaneOpened | LaneClosed;
  } catch {
    return null;
  }
}

/** Decode one line of a lane with reports; null for a line from a later release. */
export function readReport(line: string): ClientEvent | null {
  try {
    return EVENT(JSON.parse(line)) as unknown as ClientEvent;
  } catch {
    return null;
  }
}

/** Return true for a lane with reports of a running tool. */
export function isReportLane(name: string): boolean {
  return name.startsWith(`${REPORT_LANE}.`);
}

/** Return the lane of the newest attempt among the lanes of a stream, "" if none has reports. */
export function newestReportLane(names: Iterable<string>): string {
  let newest = "";
  for (const name of names) if (isReportLane(name) && isLater(name, newest)) newest = name;
  return newest;
}

function isLater(name: string, than: string): boolean {
  const [numbers, others] = [name, than].map((one) => one.split(".").slice(1).map(Number)) as [number[], number[]];
  const at = numbers.findIndex((number, i) => number !== others[i]);
  return at >= 0 && (numbers[at] as number) > (others[at] ?? -1);
}

function refuseNewer(fields: Fields): void {
  const version = fields.v === undefined ? 1 : int(fields.v, "v");
  if (version > FORMAT) {
    const found = `the server sends events in format ${version}, and this client reads up to ${FORMAT}: update it`;
    throw new ClientError("format_newer", found);
  }
}
