/**
 * Frames from the server, and their decoder. Field names are those on the wire; absent fields have their defaults.
 *
 * Source: docs/reference/messages.md, stepline/model/wire/event.py.
 */

import { ClientError } from "./failure.ts";

/** The newest version of an `EventFrame` that this release reads. */
export const FORMAT = 1;

/** One durable event. `type` is the event's name, `route` the family a client binds to. */
export interface ClientEvent {
  readonly type: string;
  readonly route: string;
  readonly ts: string;
  readonly turn_id: string;
  readonly step: string;
  readonly status: string;
  readonly data: Fields;
}

export type Fields = Readonly<Record<string, unknown>>;

/** The events of batch `n`, or part `part` of `parts` of them: `piece` then holds a slice of their JSON array. */
export interface EventFrame {
  readonly frame: "events";
  readonly conversation: string;
  readonly n: number;
  readonly prev: number;
  readonly claim: number;
  readonly part: number;
  readonly parts: number;
  readonly events: readonly ClientEvent[];
  readonly piece: string;
  readonly v: number;
}

/** Text from character `off` of lane `lane` of stream `claim`. Text before character `start` is kept nowhere. */
export interface DeltaFrame {
  readonly frame: "delta";
  readonly conversation: string;
  readonly claim: number;
  readonly lane: string;
  readonly off: number;
  readonly text: string;
  readonly start: number;
}

/** The end of a replay: the client now has every event up to `n`. */
export interface SyncFrame {
  readonly frame: "sync";
  readonly conversation: string;
  readonly n: number;
  readonly claim: number;
  readonly open: boolean;
  readonly turn_id: string;
  /** The number of the `approval.requested` that waits for an answer, 0 if none does. */
  readonly approval: number;
  /** The place at which the turn waits in line, 1 if it is the next; 0 if it does not wait. */
  readonly place: number;
}

/** The answer to one message: its place in the log. */
export interface AckFrame {
  readonly frame: "ack";
  readonly message_id: string;
  readonly conversation: string;
  readonly n: number;
  readonly kind: string;
  readonly duplicate: boolean;
  readonly turn_id: string;
  readonly newest: number;
}

/** The answer to a message that could not be taken; if `retryable`, it may be taken later under the same id. */
export interface ErrorFrame {
  readonly frame: "error";
  readonly code: string;
  readonly message: string;
  readonly message_id: string;
  readonly conversation: string;
  readonly retry_after_s: number;
  readonly retryable: boolean;
}

/** The answer to a ping: the newest event number. */
export interface PongFrame {
  readonly frame: "pong";
  readonly conversation: string;
  readonly n: number;
  /** As in a `sync`. */
  readonly place: number;
}

/** The answer to a renewal: messages are taken until `expires_at`, in epoch seconds. */
export interface AuthFrame {
  readonly frame: "auth";
  readonly expires_at: number;
}

/** An event about a conversation that is not in its log, so it has no number and is never replayed. */
export interface NoticeFrame {
  readonly frame: "notice";
  readonly conversation: string;
  readonly event: ClientEvent;
}

/** The answer to `watch`: the feed comes until `expires_at`, in epoch seconds. */
export interface WatchingFrame {
  readonly frame: "watching";
  readonly expires_at: number;
}

/** A change of one of the user's conversations; without events it says how far the user has read. */
export interface FeedFrame {
  readonly frame: "feed";
  readonly conversation: string;
  readonly n: number;
  readonly events: readonly ClientEvent[];
  readonly read_n: number;
}

export type Frame =
  | EventFrame
  | DeltaFrame
  | SyncFrame
  | AckFrame
  | ErrorFrame
  | PongFrame
  | AuthFrame
  | NoticeFrame
  | WatchingFrame
  | FeedFrame;

export type Marker = "thinking" | "timeline_text" | "answer" | "canvas" | "subsystem";
export type AbortReason = "" | "policy" | "cancelled" | "provider_error" | "eof";

/** The lane that describes the other lanes of its stream: one JSON object a line. */
export const CONTROL_LANE = "lanes";

/** The content of a lane, and where a client shows it. `replaces` is the lane whose text this one makes void. */
export interface LaneFacts {
  readonly marker: Marker;
  readonly format: string;
  readonly artifact_name: string;
  readonly title: string;
  readonly sub_type: string;
  readonly execution_id: string;
  readonly language: string;
  readonly replaces: string;
  /** When its program began to run. */
  readonly began_at: string;
}

export interface LaneOpened {
  readonly do: "open";
  readonly lane: string;
  readonly facts: LaneFacts;
}

/** The end of a lane of `chars` characters (code points). `aborted` says why it is incomplete, `at` when its program ended. */
export interface LaneClosed {
  readonly do: "close";
  readonly lane: string;
  readonly chars: number;
  readonly aborted: AbortReason;
  readonly at: string;
}

/**
 * Decode a frame; return null for a kind that this release does not know.
 *
 * Text that is no frame is an error of the gateway itself, sent when a function behind it fails: its code is `gateway`, and
 * it may be about any message. Throws ClientError `format_newer`.
 */
export function readFrame(text: string): Frame | null {
  try {
    return parseFrame(JSON.parse(text));
  } catch (error) {
    if (error instanceof ClientError) throw error;
    return errorFrame({ code: "gateway", message: text.slice(0, 300), retryable: true });
  }
}

/**
 * Read a frame from decoded JSON, such as one of a page of past events; null for a kind that this release does not know.
 *
 * Throws TypeError if it is no frame of ours, ClientError `format_newer`.
 */
export function parseFrame(value: unknown): Frame | null {
  const fields = asFields(value);
  const kind = text(fields, "frame");
  if (kind === "events") refuseNewer(fields);
  return Object.hasOwn(READERS, kind) ? (READERS[kind as Frame["frame"]](fields) as Frame) : null;
}

/** Return an error frame as the server would send it. */
export function errorFrame(given: Pick<ErrorFrame, "code" | "message"> & Partial<ErrorFrame>): ErrorFrame {
  return { frame: "error", message_id: "", conversation: "", retry_after_s: 0, retryable: false, ...given };
}

/** Decode the events of a batch that came in parts. Throws SyntaxError, TypeError. */
export function joinPieces(pieces: readonly string[]): readonly ClientEvent[] {
  return asList(JSON.parse(pieces.join("")), readEvent);
}

/** Decode one line of the control lane; null for a line of a later release. */
export function readControlLine(line: string): LaneOpened | LaneClosed | null {
  try {
    const fields = asFields(JSON.parse(line));
    const lane = text(fields, "lane");
    switch (text(fields, "do")) {
      case "open":
        return { do: "open", lane, facts: readFacts(asFields(fields.facts)) };
      case "close":
        return {
          do: "close",
          lane,
          chars: int(fields, "chars"),
          aborted: oneOf(fields, "aborted", ABORTED, ""),
          at: text(fields, "at", ""),
        };
      default:
        return null;
    }
  } catch {
    return null;
  }
}

const MARKERS: readonly Marker[] = ["thinking", "timeline_text", "answer", "canvas", "subsystem"];
const ABORTED: readonly AbortReason[] = ["", "policy", "cancelled", "provider_error", "eof"];

const READERS: { readonly [K in Frame["frame"]]: (fields: Fields) => Extract<Frame, { frame: K }> } = {
  events: (f) => ({
    frame: "events",
    conversation: text(f, "conversation"),
    n: int(f, "n"),
    prev: int(f, "prev"),
    claim: int(f, "claim", 0),
    part: int(f, "part", 1),
    parts: int(f, "parts", 1),
    events: readEvents(f),
    piece: text(f, "piece", ""),
    v: int(f, "v", 1),
  }),
  delta: (f) => ({
    frame: "delta",
    conversation: text(f, "conversation"),
    claim: int(f, "claim"),
    lane: text(f, "lane"),
    off: int(f, "off"),
    text: text(f, "text"),
    start: int(f, "start", 0),
  }),
  sync: (f) => ({
    frame: "sync",
    conversation: text(f, "conversation"),
    n: int(f, "n"),
    claim: int(f, "claim", 0),
    open: flag(f, "open"),
    turn_id: text(f, "turn_id", ""),
    approval: int(f, "approval", 0),
    place: int(f, "place", 0),
  }),
  ack: (f) => ({
    frame: "ack",
    message_id: text(f, "message_id"),
    conversation: text(f, "conversation"),
    n: int(f, "n"),
    kind: text(f, "kind"),
    duplicate: flag(f, "duplicate"),
    turn_id: text(f, "turn_id", ""),
    newest: int(f, "newest", 0),
  }),
  error: (f) => ({
    frame: "error",
    code: text(f, "code"),
    message: text(f, "message"),
    message_id: text(f, "message_id", ""),
    conversation: text(f, "conversation", ""),
    retry_after_s: int(f, "retry_after_s", 0),
    retryable: flag(f, "retryable"),
  }),
  pong: (f) => ({ frame: "pong", conversation: text(f, "conversation"), n: int(f, "n"), place: int(f, "place", 0) }),
  auth: (f) => ({ frame: "auth", expires_at: int(f, "expires_at") }),
  notice: (f) => ({ frame: "notice", conversation: text(f, "conversation"), event: readEvent(f.event) }),
  watching: (f) => ({ frame: "watching", expires_at: int(f, "expires_at") }),
  feed: (f) => ({
    frame: "feed",
    conversation: text(f, "conversation"),
    n: int(f, "n", 0),
    events: readEvents(f),
    read_n: int(f, "read_n", 0),
  }),
};

function refuseNewer(fields: Fields): void {
  const version = int(fields, "v", 1);
  if (version > FORMAT) {
    const found = `the server sends events in format ${version}, and this client reads up to ${FORMAT}: update it`;
    throw new ClientError("format_newer", found);
  }
}

function readEvents(fields: Fields): readonly ClientEvent[] {
  return fields.events === undefined ? [] : asList(fields.events, readEvent);
}

function readEvent(value: unknown): ClientEvent {
  const fields = asFields(value);
  return {
    type: text(fields, "type"),
    route: text(fields, "route"),
    ts: text(fields, "ts"),
    turn_id: text(fields, "turn_id", ""),
    step: text(fields, "step", ""),
    status: text(fields, "status", "update"),
    data: fields.data === undefined ? {} : asFields(fields.data),
  };
}

function readFacts(fields: Fields): LaneFacts {
  return {
    marker: oneOf(fields, "marker", MARKERS),
    format: text(fields, "format", "markdown"),
    artifact_name: text(fields, "artifact_name", ""),
    title: text(fields, "title", ""),
    sub_type: text(fields, "sub_type", ""),
    execution_id: text(fields, "execution_id", ""),
    language: text(fields, "language", ""),
    replaces: text(fields, "replaces", ""),
    began_at: text(fields, "began_at", ""),
  };
}

function asFields(value: unknown): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new TypeError("expected an object");
}

function asList<T>(value: unknown, read: (one: unknown) => T): readonly T[] {
  if (Array.isArray(value)) return value.map(read);
  throw new TypeError("expected an array");
}

function text(fields: Fields, name: string, otherwise?: string): string {
  const value = fields[name] === undefined ? otherwise : fields[name];
  if (typeof value === "string") return value;
  throw new TypeError(`${name}: expected a string`);
}

function int(fields: Fields, name: string, otherwise?: number): number {
  const value = fields[name] === undefined ? otherwise : fields[name];
  if (Number.isInteger(value)) return value as number;
  throw new TypeError(`${name}: expected an integer`);
}

function flag(fields: Fields, name: string): boolean {
  const value = fields[name] === undefined ? false : fields[name];
  if (typeof value === "boolean") return value;
  throw new TypeError(`${name}: expected a boolean`);
}

function oneOf<T extends string>(fields: Fields, name: string, known: readonly T[], otherwise?: T): T {
  const value = text(fields, name, otherwise) as T;
  if (known.includes(value)) return value;
  throw new TypeError(`${name}: a later release's`);
}
