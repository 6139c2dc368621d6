/** The events of calls, requests for approvals, plans, files and citations. */

import type { EventPart } from "../../../src/door/turn_parts.ts";
import { type Draft, openCall } from "./draft.ts";
import {
  annotationsOf,
  approvalId,
  approvalItem,
  calledItem,
  callItem,
  fileItems,
  isAnswer,
  planItem,
} from "./items.ts";
import { endTexts } from "./texts.ts";

export function placeEvent(draft: Draft, part: EventPart): void {
  const { type, data } = part.event;
  const { conversation } = draft.state.facts.name;
  draft.reach(part.n);
  draft.update({ placed: [...draft.state.placed, part] });
  switch (type) {
    case "react.tool.call":
      draft.add(part, callItem(data.call_id, data.tool_id, data.params));
      break;
    case "react.tool.result": {
      const call = openCall(draft.state, data.call_id);
      if (call) draft.finish(call, calledItem(call.item, data));
      break;
    }
    case "approval.requested":
      pause(draft, part);
      break;
    case "approval.answered": {
      const { edited_call_id: edited, params = draft.state.facts.request?.params } = data;
      const approval = approvalId(conversation, data.call_id);
      draft.add(part, callItem(edited ?? data.call_id, data.tool_id, params, approval));
      break;
    }
    case "react.plan":
      draft.place(part, planItem(part.n, data));
      break;
    case "chat.files":
      for (const item of fileItems(conversation, data)) draft.place(part, item);
      break;
    case "chat.citations":
      cite(draft, data);
  }
}

/** End the response: its call has not run, and another response follows the answer. */
function pause(draft: Draft, part: EventPart): void {
  const { data, ts: at } = part.event;
  const request = approvalItem(draft.state.facts.name.conversation, data);
  endTexts(draft, "completed");
  const call = openCall(draft.state, data.call_id);
  if (call) draft.finish(call, { ...call.item, status: "incomplete", approval_request_id: request.id });
  draft.place(part, request);
  draft.end({ status: "completed", at });
}

/** Annotate the answers of the step, which are whole by now. */
function cite(draft: Draft, data: EventPart["event"]["data"]): void {
  for (const entry of draft.state.step) {
    if (entry.part.is === "event" || entry.isDone || !isAnswer(entry.part)) continue;
    const annotations = annotationsOf(entry.part.text, data);
    const place = { item_id: entry.item.id, output_index: entry.index, content_index: 0 };
    annotations.forEach((annotation, annotation_index) => {
      draft.send("response.output_text.annotation.added", { ...place, annotation_index, annotation });
    });
    draft.change(entry, { annotations });
  }
}
