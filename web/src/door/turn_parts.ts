/**
 * One turn as a list of parts, for the doors: effects of the client's fold in, changes of the list out.
 *
 * The parts of an ended step depend on events alone. So a client that saw the text while it was written, one that
 * resumed, and one that read only the log end with the same parts. The cursor holds the parts of the current step.
 */

import { TERMINAL } from "../client/frames.ts";
import type { ClientEvent, Effect } from "../client/index.ts";

/** A text of the model. `id` names its stream and lane, and is unique in the conversation. */
export interface TextPart {
  readonly is: "text" | "thinking";
  readonly id: string;
  readonly text: string;
  readonly whole: boolean;
}

/** An event of batch `n` with a place between the texts. */
export interface EventPart {
  readonly is: "event";
  readonly n: number;
  readonly event: ClientEvent;
}

export type Part = TextPart | EventPart;

export type Change =
  | { readonly do: "begin" | "end" | "pause"; readonly n: number; readonly event: ClientEvent }
  | { readonly do: "step" }
  /** `added` continues the text of a part, or begins a part. */
  | { readonly do: "grow"; readonly part: TextPart; readonly added: string; readonly isNew: boolean }
  | { readonly do: "close"; readonly part: TextPart }
  | { readonly do: "place"; readonly part: EventPart }
  /** The parts of the current step are replaced by these. */
  | { readonly do: "redraw"; readonly parts: readonly Part[] }
  /** For display only: it leaves no part. */
  | { readonly do: "show"; readonly effect: Effect | EventPart };

/** The turn to follow: by its name, or by the id of a message that opens it. */
export interface Followed {
  readonly turn?: string;
  readonly message?: string;
}

export interface TurnCursor {
  readonly followed: Followed;
  /** The number of the message's batch, once it is known. */
  readonly messageN: number;
  readonly turn: string;
  readonly is: "before" | "open" | "ended";
  /** The number of steps that have begun. */
  readonly steps: number;
  /** The stream of the current step. */
  readonly claim: number;
  /** The decision of the current step is in the log. */
  readonly decided: boolean;
  /** The current step may still receive the answer of the turn. */
  readonly answers: boolean;
  readonly parts: readonly Part[];
  /** Messages that arrived during the turn, and that no step has received. */
  readonly arrived: readonly EventPart[];
  /** The unanswered request for an approval. */
  readonly request: EventPart | null;
}

type Moved = readonly [cursor: TurnCursor, changes: readonly Change[]];

/** Events with a place among the parts. */
const PLACED = new Set([
  ...["react.tool.call", "react.tool.result", "approval.requested", "approval.answered"],
  ...["react.plan", "chat.files", "chat.citations"],
]);

export function follow(followed: Followed): TurnCursor {
  const none = { parts: [], arrived: [], request: null, claim: 0, steps: 0, messageN: 0 };
  return { followed, turn: "", is: "before", decided: true, answers: false, ...none };
}

/** Return the cursor of a turn that waits for an approval, for a client that has its parts up to the request. */
export function followFrom(turn: string): TurnCursor {
  return { ...follow({ turn }), turn, is: "open", steps: 1 };
}

/** Apply an effect. Effects of other turns, and those after the end of the turn, change nothing. */
export function foldTurn(cursor: TurnCursor, effect: Effect): Moved {
  if (effect.kind === "eventsApplied") return foldBatch(cursor, effect.n, effect.events);
  if (cursor.is !== "open") return [cursor, []];
  switch (effect.kind) {
    case "textAppended": {
      const is = kindOf(effect.lane);
      if (!is) return [cursor, [{ do: "show", effect }]];
      const [begun, changes] = beginStep(cursor, effect.claim);
      return after(changes, append(begun, is, `${effect.claim}.${effect.lane}`, effect.text));
    }
    case "laneKnown": {
      const shown: readonly Change[] = kindOf(effect.lane) ? [] : [{ do: "show", effect }];
      const gone = `${effect.claim}.${effect.facts.replaces}`;
      return after(shown, draw(cursor, without(cursor.parts, gone)));
    }
    case "laneEnded": {
      if (!kindOf(effect.lane)) return [cursor, [{ do: "show", effect }]];
      const id = `${effect.claim}.${effect.lane}`;
      return draw(
        cursor,
        cursor.parts.map((part) => (part.is !== "event" && part.id === id ? { ...part, whole: true } : part)),
      );
    }
    case "streamReset":
      return cursor.decided ? [cursor, []] : draw(cursor, received(cursor, cursor.claim));
    default:
      return [cursor, []];
  }
}

/** Continue a text, or begin one. No other part has changed, and to compare this one would read all of it each time. */
function append(cursor: TurnCursor, is: TextPart["is"], id: string, added: string): Moved {
  const at = cursor.parts.findIndex((part) => part.is !== "event" && part.id === id);
  const known = cursor.parts[at] as TextPart | undefined;
  const part: TextPart = { is, id, text: (known?.text ?? "") + added, whole: known?.whole ?? false };
  const parts = known ? cursor.parts.with(at, part) : [...cursor.parts, part];
  if (part.whole) return draw(cursor, parts);
  return [{ ...cursor, parts }, [{ do: "grow", part, added, isNew: !known }]];
}

/** Return the change for a turn that waits for a person: nothing follows until there is an answer. */
export function pauseOf({ request }: TurnCursor): readonly Change[] {
  return request ? [{ do: "pause", n: request.n, event: request.event }] : [];
}

function foldBatch(cursor: TurnCursor, n: number, events: readonly ClientEvent[]): Moved {
  // The sources of an answer precede it in its batch; here they follow it. The next turn begins after both.
  const [late, early] = [events.filter(isLate), events.filter((event) => !isLate(event))];
  let moved: Moved = [cursor, []];
  const fold = (event: ClientEvent) => {
    moved = after(moved[1], foldEvent(moved[0], n, event));
  };
  early.forEach(fold);
  const ending = late.find((event) => TERMINAL.has(event.type) && event.turn_id === moved[0].turn);
  if (ending && moved[0].is === "open") moved = after(moved[1], finish(moved[0], ending));
  late.forEach(fold);
  return moved;
}

function isLate({ type }: ClientEvent): boolean {
  return type === "chat.citations" || type === "chat.start" || TERMINAL.has(type);
}

function foldEvent(cursor: TurnCursor, n: number, event: ClientEvent): Moved {
  const part: EventPart = { is: "event", n, event };
  if (cursor.is === "before") return seek(cursor, n, event);
  if (cursor.is === "ended" || event.turn_id !== cursor.turn) return [cursor, []];
  switch (event.type) {
    case "chat.complete":
    case "chat.error":
      return [{ ...cursor, is: "ended" }, [{ do: "end", n, event }]];
    case "solver.react.decision":
      return decide(cursor, event);
    case "chat.conversation.accepted":
      return [event.data.text ? { ...cursor, arrived: [...cursor.arrived, part] } : cursor, []];
    case "chat.step":
      if (event.step === "deferred") return withAnswer(cursor, String(event.data.answer));
      return [{ ...cursor, arrived: cursor.arrived.filter((one) => !isSame(one.event, event)) }, []];
    case "approval.requested":
      return draw({ ...cursor, request: part }, [...cursor.parts, part]);
    case "approval.answered":
      return draw({ ...cursor, request: null }, [...cursor.parts, part]);
    default:
      if (PLACED.has(event.type)) return draw(cursor, [...cursor.parts, part]);
      return [cursor, [{ do: "show", effect: part }]];
  }
}

/** Find the beginning of the followed turn. */
function seek(cursor: TurnCursor, n: number, event: ClientEvent): Moved {
  const { turn, message } = cursor.followed;
  const { data } = event;
  if (event.type === "chat.conversation.accepted" && data.message_id === message) {
    return [{ ...cursor, messageN: n }, []];
  }
  if (event.type !== "chat.start") return [cursor, []];
  const opens = (data.prompts as readonly number[]).includes(cursor.messageN) || event.turn_id === turn;
  if (!opens) return [cursor, []];
  return [{ ...cursor, turn: event.turn_id, is: "open" }, [{ do: "begin", n, event }]];
}

/** Show the step as the log has it. The answer stays as it was written until the turn ends, or goes on. */
function decide(cursor: TurnCursor, { data }: ClientEvent): Moved {
  const claim = Number(data.claim);
  const [begun, changes] = beginStep(cursor, claim);
  const thoughts = ((data.thinking ?? []) as readonly { text: string }[]).map(({ text }) => text);
  const answers = data.interrupted === true || (data.accepted === true && data.action !== "call_tool");
  const answer = answers
    ? begun.parts.find((part) => part.is === "text" && part.id.startsWith(`${claim}.answer.`))
    : null;
  const wanted: readonly (Part | null | undefined)[] = [
    ...received(begun, claim),
    ...thoughts.map((text, i) => textOf("thinking", `${claim}.thinking.${i}`, text)),
    data.notes ? textOf("text", `${claim}.notes.0`, String(data.notes)) : null,
    data.interrupted ? (data.answer ? textOf("text", `${claim}.answer.0`, String(data.answer)) : null) : answer,
    ...begun.parts.filter((part) => part.is === "event" && PLACED.has(part.event.type)),
  ];
  const arrived = begun.arrived.filter((one) => one.n >= claim);
  const parts = wanted.filter((part) => part !== null && part !== undefined);
  return after(changes, draw({ ...begun, decided: true, answers, arrived }, parts));
}

/** End the turn with its recorded answer; text that no event has settled is void. */
function finish(cursor: TurnCursor, { type, data }: ClientEvent): Moved {
  const [last, changes] = cursor.answers ? [cursor, []] : lastStep(cursor);
  return after(changes, type === "chat.complete" ? withAnswer(last, String(data.answer)) : draw(last, last.parts));
}

/** Return a step without content: the one that was being written, or a new one. */
function lastStep(cursor: TurnCursor): Moved {
  if (!cursor.decided) return draw({ ...cursor, decided: true, claim: 0 }, []);
  return [{ ...cursor, parts: [], claim: 0, steps: cursor.steps + 1 }, [{ do: "step" }]];
}

/** Set the answer of the current step. */
function withAnswer(cursor: TurnCursor, answer: string): Moved {
  const lane = `${cursor.claim || cursor.turn}.answer.`;
  const others = cursor.parts.filter((part) => part.is !== "text" || !part.id.startsWith(lane));
  const at = others.findIndex((part) => part.is === "event" && PLACED.has(part.event.type));
  const place = at < 0 ? others.length : at;
  const part = answer === "" ? [] : [textOf("text", `${lane}0`, answer)];
  return draw(cursor, [...others.slice(0, place), ...part, ...others.slice(place)]);
}

/** Begin the step of stream `claim`, unless it is the current one. Another attempt begins its step anew. */
function beginStep(cursor: TurnCursor, claim: number): Moved {
  if (!cursor.decided && cursor.claim === claim) return [cursor, []];
  const begun = { ...cursor, claim, decided: false, answers: false };
  if (!cursor.decided) return draw(begun, received(cursor, claim));
  const step: readonly Change[] = [{ do: "step" }];
  return after(step, draw({ ...begun, parts: [], steps: cursor.steps + 1 }, received(cursor, claim)));
}

/** Return the messages that the step of stream `claim` has read. */
function received(cursor: TurnCursor, claim: number): readonly EventPart[] {
  return cursor.arrived.filter((one) => one.n < claim);
}

/** Change the parts of the current step with the fewest changes: continue what is shown, or replace all of it. */
function draw(cursor: TurnCursor, wanted: readonly Part[]): Moved {
  const shown = cursor.parts;
  if (shown.some((part, i) => !continues(part, wanted[i]))) {
    return [{ ...cursor, parts: wanted }, [{ do: "redraw", parts: wanted }]];
  }
  return [{ ...cursor, parts: wanted }, wanted.flatMap((part, i) => growth(shown[i], part))];
}

function continues(shown: Part, wanted: Part | undefined): boolean {
  if (shown === wanted) return true;
  if (shown.is === "event" || !wanted || wanted.is === "event" || shown.id !== wanted.id) return false;
  return shown.whole ? shown.text === wanted.text : wanted.text.startsWith(shown.text);
}

/** Return the changes from a part, or from nothing, to a longer one. */
export function growth(shown: Part | undefined, wanted: Part): readonly Change[] {
  if (shown === wanted) return [];
  if (wanted.is === "event") return [{ do: "place", part: wanted }];
  const before = shown?.is === wanted.is ? shown : null;
  const added = wanted.text.slice(before?.text.length ?? 0);
  const grown: readonly Change[] = added || !before ? [{ do: "grow", part: wanted, added, isNew: !before }] : [];
  return wanted.whole && !before?.whole ? [...grown, { do: "close", part: wanted }] : grown;
}

function after(changes: readonly Change[], [cursor, more]: Moved): Moved {
  return [cursor, [...changes, ...more]];
}

function without(parts: readonly Part[], id: string): readonly Part[] {
  return parts.some((part) => part.is !== "event" && part.id === id)
    ? parts.filter((part) => part.is === "event" || part.id !== id)
    : parts;
}

function textOf(is: TextPart["is"], id: string, text: string): TextPart {
  return { is, id, text, whole: true };
}

function kindOf(lane: string): TextPart["is"] | null {
  if (lane.startsWith("thinking.")) return "thinking";
  return lane.startsWith("answer.") || lane.startsWith("notes.") ? "text" : null;
}

function isSame(accepted: ClientEvent, dropped: ClientEvent): boolean {
  return accepted.data.message_id === dropped.data.message_id;
}
