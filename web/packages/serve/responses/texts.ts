/** The events of texts: messages of the assistant, and summaries of its reasoning. */

import type { TextPart } from "../../../src/door/turn_parts.ts";
import { type Draft, type Entry, textEntry } from "./draft.ts";
import { isAnswer, type Status, summaryPart, textContent, textItem } from "./items.ts";

export function growText(draft: Draft, part: TextPart, added: string, isNew: boolean): void {
  draft.reach(Number.parseInt(part.id, 10) || 0);
  const known = isNew ? beginText(draft, part) : (textEntry(draft.state, part.id) as Entry);
  const { item, index } = draft.change(known, { part });
  if (!added) return;
  const place = { item_id: item.id, output_index: index };
  if (part.is === "thinking") {
    draft.send("response.reasoning_summary_text.delta", { ...place, summary_index: 0, delta: added }, added.length);
  } else {
    draft.send("response.output_text.delta", { ...place, content_index: 0, delta: added, logprobs: [] }, added.length);
  }
}

function beginText(draft: Draft, part: TextPart): Entry {
  const isThinking = part.is === "thinking";
  const first = `${isThinking ? "rs" : "msg"}_${part.id}`;
  let id = first;
  for (let count = 2; draft.state.replaced.includes(id); count += 1) id = `${first}.${count}`;
  const entry = draft.add(part, textItem(id, part, "in_progress", [], false));
  const place = { item_id: id, output_index: entry.index };
  if (isThinking) {
    draft.send("response.reasoning_summary_part.added", { ...place, summary_index: 0, part: summaryPart("") });
  } else draft.send("response.content_part.added", { ...place, content_index: 0, part: textContent("", []) });
  return entry;
}

/** End a text, unless it is an answer: that may still be cited. */
export function closeText(draft: Draft, part: TextPart): void {
  const entry = draft.change(textEntry(draft.state, part.id) as Entry, { part });
  if (!isAnswer(part)) endText(draft, entry, "completed");
}

export function endText(draft: Draft, entry: Entry, status: Status): void {
  const { item, index, annotations } = entry;
  const part = entry.part as TextPart;
  const { text } = part;
  const place = { item_id: item.id, output_index: index };
  if (part.is === "thinking") {
    const at = { ...place, summary_index: 0 };
    draft.send("response.reasoning_summary_text.done", { ...at, text });
    draft.send("response.reasoning_summary_part.done", { ...at, part: summaryPart(text) });
  } else {
    const at = { ...place, content_index: 0 };
    draft.send("response.output_text.done", { ...at, text, logprobs: [] });
    draft.send("response.content_part.done", { ...at, part: textContent(text, annotations) });
  }
  draft.finish(entry, textItem(item.id, part, status, annotations));
}

/** End the texts of the step; `status` is that of one that is not whole. */
export function endTexts(draft: Draft, status: Status): void {
  for (const entry of draft.state.step) {
    const { part, isDone } = entry;
    if (part.is !== "event" && !isDone) endText(draft, entry, part.whole ? "completed" : status);
  }
}
