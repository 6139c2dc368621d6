/** The events of a text of the model: a message of the assistant, or a reasoning message. */

import { type Event, EventType } from "@ag-ui/client";
import type { TextPart } from "../../src/door/turn_parts.ts";
import { seqOf } from "./placing.ts";

export function starts(part: TextPart): readonly Event[] {
  const [messageId, metadata] = [part.id, seqOf(part)];
  if (part.is === "text") return [{ type: EventType.TEXT_MESSAGE_START, messageId, role: "assistant", metadata }];
  return [
    { type: EventType.REASONING_START, messageId, metadata },
    { type: EventType.REASONING_MESSAGE_START, messageId, role: "reasoning", metadata },
  ];
}

export function ends({ is, id: messageId }: TextPart): readonly Event[] {
  if (is === "text") return [{ type: EventType.TEXT_MESSAGE_END, messageId }];
  return [
    { type: EventType.REASONING_MESSAGE_END, messageId },
    { type: EventType.REASONING_END, messageId },
  ];
}
