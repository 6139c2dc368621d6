/**
 * Changes of a turn as events of AG-UI: a turn is a run, a round is a step, each text is one message.
 *
 * A message cannot be changed or removed by its own events. So the door keeps the messages of the run as a client has
 * them, and replaces those of a step by snapshots. Source: `@ag-ui/client` 1.0, src/apply/default.ts.
 */

import { type Event, EventType, type Message } from "@ag-ui/client";
import { type Change, growth, type TextPart } from "../../src/door/turn_parts.ts";
import type { Door } from "../../src/door/turn_stream.ts";
import { type Drawn, ended, interruptOf, place, type RunMessages, seq, seqOf, snapshots } from "./placing.ts";
import { NO_TURN, nextState, stateSnapshot, stoppedState, type TurnState } from "./state.ts";

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
    case "redraw": {
      const events = [...[...state.open.values()].flatMap(ends), ...snapshots(state.before, state.step)];
      const again = change.parts.flatMap((part) => growth(undefined, part));
      return again.reduce(then, [{ ...state, step: [], open: new Map() }, events]);
    }
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
  const start: readonly Event[] = text
    ? [{ type: EventType.TEXT_MESSAGE_START, messageId: id, role: "assistant", metadata }]
    : [
        { type: EventType.REASONING_START, messageId: id, metadata },
        { type: EventType.REASONING_MESSAGE_START, messageId: id, role: "reasoning", metadata },
      ];
  const type = text ? EventType.TEXT_MESSAGE_CONTENT : EventType.REASONING_MESSAGE_CONTENT;
  const content: readonly Event[] = added ? [{ type, messageId: id, delta: added, metadata } as Event] : [];
  return [{ ...state, step, open }, [...(isNew ? start : []), ...content]];
}

function ends({ is, id: messageId }: TextPart): readonly Event[] {
  if (is === "text") return [{ type: EventType.TEXT_MESSAGE_END, messageId }];
  return [
    { type: EventType.REASONING_MESSAGE_END, messageId },
    { type: EventType.REASONING_END, messageId },
  ];
}

/** Close the texts and the step. */
function close(state: RunMessages, ...last: readonly Event[]): Drawn {
  const texts = [...state.open.values()].flatMap(ends);
  const step: readonly Event[] = state.name ? [{ type: EventType.STEP_FINISHED, stepName: state.name }] : [];
  return [{ ...state, open: new Map(), name: "" }, [...texts, ...step, ...last]];
}
