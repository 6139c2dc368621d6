/**
 * Changes of a turn as events of AG-UI: a turn is a run, a round is a step, each text is one message.
 *
 * A message cannot be changed or removed by its own events. So the door keeps the messages of the run as a client has
 * them, and replaces those of a step by snapshots. Source: `@ag-ui/client` 1.0, src/apply/default.ts.
 */

import { type Event, EventType, type Message } from "@ag-ui/client";
import { type Change, growth, type Part, type TextPart } from "../../src/door/turn_parts.ts";
import type { Door } from "../../src/door/turn_stream.ts";
import {
  type Drawn,
  ended,
  interruptOf,
  place,
  type RunMessages,
  seq,
  seqOf,
  snapshots,
  wholeSnapshot,
} from "./placing.ts";
import { NO_TURN, nextState, stateSnapshot, stoppedState, type TurnState } from "./state.ts";
import { ends, starts } from "./text_events.ts";

/** Return the door of a run that begins after these messages, and in this state. */
export function agUi(
  threadId: string,
  runId: string,
  before: readonly Message[],
  turn: TurnState = NO_TURN,
): Door<Event, RunMessages> {
  const run = { threadId, runId };
  return {
    empty: { before, step: [], name: "", steps: 0, open: new Map(), turn },
    render(state, change) {
      if (change.do === "pause")
        return close(state, { type: EventType.RUN_FINISHED, ...run, ...interruptOf(change.event, change.n) });
      if (change.do !== "end") return drawn(state, change);
      const [next, events] = note(state, change);
      const [closed, ends] = close(next, ended(change.event, run, seq(change.n)));
      return [closed, [...events, ...ends]];
    },
    fail: (_, { code, message }) => [{ type: EventType.RUN_ERROR, code, message }],
    cancel(state) {
      const snapshot = stateSnapshot(stoppedState(state.turn));
      return [snapshot, ...close(state, { type: EventType.RUN_FINISHED, ...run, outcome: { type: "cancelled" } })[1]];
    },
  };
}

/** Show the state of the turn, if it changes. */
function note(state: RunMessages, change: Change): Drawn {
  const turn = nextState(state.turn, change);
  return turn === state.turn ? [state, []] : [{ ...state, turn }, [stateSnapshot(turn)]];
}

function drawn(state: RunMessages, change: Change): Drawn {
  switch (change.do) {
    case "step": {
      const [closed, events] = close(state);
      const name = `round ${closed.steps + 1}`;
      const next = { ...closed, before: [...closed.before, ...closed.step], step: [], name, steps: closed.steps + 1 };
      return [next, [...events, { type: EventType.STEP_STARTED, stepName: name }]];
    }
    case "grow":
      return grow(state, change.part, change.added, change.isNew);
    case "close": {
      const open = new Map(state.open);
      open.delete(change.part.id);
      return [{ ...state, open }, ends(change.part)];
    }
    case "redraw":
      return redraw(state, change.parts);
    case "begin":
      return note(state, change);
    case "place": {
      const [noted, events] = note(state, change);
      const [next, more] = place(noted, change.part.event, seq(change.part.n));
      return [next, [...events, ...more]];
    }
    case "show": {
      const { effect } = change;
      const name = "event" in effect ? "stepline.event" : "stepline.lane";
      return [
        state,
        [{ type: EventType.CUSTOM, name, value: "event" in effect ? { n: effect.n, ...effect.event } : effect }],
      ];
    }
    default:
      return [state, []];
  }
}

/** Replace the step by snapshots: one without its messages, so that the next one defines their order. */
function redraw(state: RunMessages, parts: readonly Part[]): Drawn {
  const before: Drawn = [{ ...state, step: [], open: new Map() }, []];
  const [next, events] = parts.flatMap((part) => growth(undefined, part)).reduce(then, before);
  // Its calls are in the snapshot; what is no message was shown when it arrived.
  const states = events.filter(({ type }) => type === EventType.STATE_SNAPSHOT).slice(-1);
  const gone = [...state.open.values()].filter(({ id }) => !next.open.has(id));
  const begun = [...next.open.values()].filter(({ id }) => !state.open.has(id));
  return [
    next,
    [
      ...gone.flatMap(ends),
      ...snapshots(state.before, state.step),
      wholeSnapshot([...next.before, ...next.step]),
      ...begun.flatMap(starts),
      ...states,
    ],
  ];
}

function then([state, events]: Drawn, change: Change): Drawn {
  const [next, more] = drawn(state, change);
  return [next, [...events, ...more]];
}

function grow(state: RunMessages, part: TextPart, added: string, isNew: boolean): Drawn {
  const { id } = part;
  const [role, text] = part.is === "text" ? (["assistant", true] as const) : (["reasoning", false] as const);
  const open = isNew ? new Map(state.open).set(id, part) : state.open;
  const step = isNew
    ? [...state.step, { id, role, content: added, metadata: seqOf(part) } as Message]
    : state.step.map((one) => (one.id === id ? ({ ...one, content: part.text } as Message) : one));
  const metadata = seqOf(part);
  const type = text ? EventType.TEXT_MESSAGE_CONTENT : EventType.REASONING_MESSAGE_CONTENT;
  const content: readonly Event[] = added ? [{ type, messageId: id, delta: added, metadata } as Event] : [];
  return [{ ...state, step, open }, [...(isNew ? starts(part) : []), ...content]];
}

/** Close the texts and the step. */
function close(state: RunMessages, ...last: readonly Event[]): Drawn {
  const texts = [...state.open.values()].flatMap(ends);
  const step: readonly Event[] = state.name ? [{ type: EventType.STEP_FINISHED, stepName: state.name }] : [];
  return [{ ...state, open: new Map(), name: "" }, [...texts, ...step, ...last]];
}
