/** A turn as an MCP client sees it: what it has come to, from the changes of its parts. */

import type { ClientEvent } from "../../../src/client/index.ts";
import type { Past } from "../../../src/door/stage.ts";
import { type Change, foldTurn, follow, type TurnCursor } from "../../../src/door/turn_parts.ts";
import type { Door } from "../../../src/door/turn_stream.ts";

type Data = ClientEvent["data"];

export interface TurnFile {
  readonly path: string;
  readonly name: string;
  readonly mime: string;
  readonly bytes: number;
}

export interface TurnOutcome {
  /** `waits`: for a person's answer. `failed`: the connection or the stage refused, and the turn may go on. */
  readonly is: "working" | "waits" | "ended" | "failed";
  /** "" before the turn begins. */
  readonly turn: string;
  readonly round: number;
  /** What it does, in words. */
  readonly doing: string;
  /** The newest event of `react.plan`; null without a plan. */
  readonly plan: Data | null;
  /** The request for an approval that the turn waits for. */
  readonly request: Data | null;
  readonly files: ReadonlyMap<string, TurnFile>;
  readonly answer: string;
  /** Why it ended; the reason of an error is `code`. */
  readonly reason: string;
  readonly code: string;
  readonly message: string;
  /** The time of its newest event. */
  readonly at: string;
}

const BEFORE: TurnOutcome = {
  is: "working",
  turn: "",
  round: 0,
  doing: "The message waits for its turn.",
  plan: null,
  request: null,
  files: new Map(),
  answer: "",
  reason: "",
  code: "",
  message: "",
  at: "",
};

/** Its values are the outcomes, each time that one changes. Text that is being written changes none. */
export const MCP: Door<TurnOutcome, TurnOutcome> = {
  empty: BEFORE,
  render(outcome, change) {
    const next = changed(outcome, change);
    return [next, next === outcome ? [] : [next]];
  },
  fail: (outcome, { code, message }) => [{ ...outcome, is: "failed", code, message }],
};

function changed(outcome: TurnOutcome, change: Change): TurnOutcome {
  switch (change.do) {
    case "begin":
      return { ...outcome, turn: change.event.turn_id, doing: "The turn begins.", at: change.event.ts };
    case "step":
      return { ...outcome, round: outcome.round + 1, doing: `Round ${outcome.round + 1}.` };
    case "place":
      return placed(outcome, change.part.event);
    case "redraw":
      return change.parts.reduce((next, part) => (part.is === "event" ? placed(next, part.event) : next), outcome);
    case "end":
      return ended(outcome, change.event);
    default:
      return outcome;
  }
}

/** Apply an event with a place in the turn. Applied again, it changes nothing. */
function placed(outcome: TurnOutcome, { type, data, ts: at }: ClientEvent): TurnOutcome {
  switch (type) {
    case "react.tool.call":
      return { ...outcome, doing: `Calls ${data.tool_id}.`, at };
    case "react.plan":
      return { ...outcome, plan: data, doing: planWords(data), at };
    case "approval.requested":
      return { ...outcome, is: "waits", request: data, doing: `${data.tool_id} waits for a person's approval.`, at };
    case "approval.answered":
      return { ...outcome, is: "working", request: null, doing: `${data.tool_id}: ${data.verdict}.`, at };
    case "chat.files":
      return { ...outcome, files: withFiles(outcome.files, data), at };
    default:
      return outcome;
  }
}

function ended(outcome: TurnOutcome, { type, data, ts: at }: ClientEvent): TurnOutcome {
  const end = { ...outcome, is: "ended", request: null, at } as const;
  if (type === "chat.error") return { ...end, code: String(data.code), message: String(data.error) };
  return { ...end, reason: String(data.reason), answer: String(data.answer) };
}

function planWords({ steps, status }: Data): string {
  const all = (steps ?? []) as readonly string[];
  const states = Object.values((status ?? {}) as Readonly<Record<string, string>>);
  return `Plan: ${states.filter((state) => state === "done").length} of ${all.length} steps are done.`;
}

function withFiles(files: TurnOutcome["files"], { items }: Data): TurnOutcome["files"] {
  const added = ((items ?? []) as readonly Data[]).map(({ logical_path: path, filename, mime, size_bytes: bytes }) => {
    const file = { path: String(path), name: String(filename), mime: String(mime), bytes: Number(bytes) };
    return [file.path, file] as const;
  });
  return new Map([...files, ...added]);
}

/** Return the outcome of the turn that `cursor` follows. */
export function outcomeIn({ effects }: Past, cursor: TurnCursor): TurnOutcome {
  let [folded, outcome] = [cursor, BEFORE];
  for (const effect of effects) {
    const [next, changes] = foldTurn(folded, effect);
    folded = next;
    outcome = changes.reduce(changed, outcome);
  }
  return outcome;
}

/** Return the outcome of each turn, the oldest first. */
export function outcomesIn(past: Past): readonly TurnOutcome[] {
  const events = past.effects.flatMap((effect) => (effect.kind === "eventsApplied" ? effect.events : []));
  const turns = events.filter(({ type }) => type === "chat.start").map((event) => event.turn_id);
  return turns.map((turn) => outcomeIn(past, follow({ turn })));
}
