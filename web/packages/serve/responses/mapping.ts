/**
 * Changes of a turn as events of Open Responses: each text, call, plan and file is an item.
 *
 * An item that is done cannot change, so a text that is replaced ends as `incomplete`, another item follows, and the
 * response of the last event has only the other one. A sequence number is the same in each reading: that of a delta counts
 * its characters, since pieces differ, and that of what belongs to batch `n` begins at `n` times 1,000,000.
 */

import { type Change, growth, type Part, type TextPart } from "../../../src/door/turn_parts.ts";
import type { Door } from "../../../src/door/turn_stream.ts";
import { Draft, type Entry, isOver, type ResponseEvent, type ResponseState, stateOf, textEntry } from "./draft.ts";
import { placeEvent } from "./placing.ts";
import type { ResponseFacts } from "./resource.ts";
import { closeText, endText, endTexts, growText } from "./texts.ts";

export function openResponses(facts: ResponseFacts): Door<ResponseEvent, ResponseState> {
  return {
    empty: begin(facts)[0],
    render(state, change) {
      const draft = new Draft(state);
      if (!isOver(state)) draw(draft, change);
      return [draft.state, draft.events];
    },
    fail(state, { code, message }) {
      const error = { type: "server_error", code, message, param: null };
      return [{ ...error, type: "error", sequence_number: state.sequence + 1, error }];
    },
  };
}

/** Return the first events of a stream, and the state after them. */
export function begin(facts: ResponseFacts): readonly [ResponseState, readonly ResponseEvent[]] {
  const draft = new Draft(stateOf(facts));
  draft.sendResponse("response.created");
  draft.update({ outcome: { status: "in_progress" } });
  draft.sendResponse("response.in_progress");
  return [{ ...draft.state, outcome: { status: "queued" } }, draft.events];
}

function draw(draft: Draft, change: Change): void {
  switch (change.do) {
    case "begin":
      draft.reach(change.n);
      draft.update({ outcome: { status: "in_progress" } });
      break;
    case "step":
      endTexts(draft, "completed");
      draft.update({ before: [...draft.state.before, ...draft.state.step], step: [], placed: [] });
      break;
    case "grow":
      growText(draft, change.part, change.added, change.isNew);
      break;
    case "close":
      closeText(draft, change.part);
      break;
    case "place":
      placeEvent(draft, change.part);
      break;
    case "redraw":
      redraw(draft, change.parts);
      break;
    case "end":
      end(draft, change);
      break;
    case "show": {
      const { effect } = change;
      if ("event" in effect && effect.event.type === "accounting.usage") draft.update({ usage: effect.event.data });
    }
  }
}

/** Replace the texts of the step that differ. Events keep their items. */
function redraw(draft: Draft, parts: readonly Part[]): void {
  for (const entry of draft.state.step) {
    if (entry.part.is === "event" || isKept(entry.part, parts)) continue;
    if (!entry.isDone) endText(draft, entry, "incomplete");
    const step = draft.state.step.filter(({ index }) => index !== entry.index);
    draft.update({ step, replaced: [...draft.state.replaced, entry.item.id] });
  }
  for (const part of parts) {
    if (part.is !== "event") {
      for (const change of growth(textEntry(draft.state, part.id)?.part, part)) draw(draft, change);
    } else if (!draft.state.placed.includes(part)) placeEvent(draft, part);
  }
  const place = ({ part }: Entry) => parts.findIndex((one) => one === part || isSameText(one, part));
  draft.update({ step: [...draft.state.step].sort((one, other) => place(one) - place(other)) });
}

function isKept(part: TextPart, parts: readonly Part[]): boolean {
  const wanted = parts.find((one) => isSameText(one, part)) as TextPart | undefined;
  if (!wanted) return false;
  return part.whole ? wanted.text === part.text : wanted.text.startsWith(part.text);
}

function isSameText(one: Part, other: Part): boolean {
  return one.is !== "event" && one.is === other.is && one.id === other.id;
}

function end(draft: Draft, { n, event }: Extract<Change, { do: "begin" | "end" | "pause" }>): void {
  const { type, data, ts: at } = event;
  const isFailed = type === "chat.error";
  draft.reach(n);
  endTexts(draft, isFailed ? "incomplete" : "completed");
  for (const entry of [...draft.state.before, ...draft.state.step]) {
    if (!entry.isDone) draft.finish(entry, { ...entry.item, status: "incomplete" });
  }
  const error = { code: String(data.code), message: String(data.error) };
  if (isFailed) draft.end({ status: "failed", error, at });
  else if (data.reason === "stop") draft.end({ status: "cancelled", at });
  else if (data.reason === "token_limit") draft.end({ status: "incomplete", incomplete: "max_output_tokens", at });
  else draft.end({ status: "completed", at });
}
