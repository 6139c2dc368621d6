/** What a client of Open Responses has after the events of one response, or of several readings of it. */

import type { ResponseEvent } from "../../packages/serve/responses/draft.ts";
import type { Item } from "../../packages/serve/responses/items.ts";
import { begin, openResponses } from "../../packages/serve/responses/mapping.ts";
import type { Resource, ResponseFacts } from "../../packages/serve/responses/resource.ts";
import type { Effect } from "../../src/client/index.ts";
import { render } from "./stories.ts";

export const FACTS: ResponseFacts = {
  name: { conversation: "c-1", after: "message", id: "m1", model: "stepline" },
  createdAt: 0,
  previous: null,
  metadata: {},
  background: false,
  leftOut: [],
  request: null,
};

/** Return the events of the response of a turn. */
export function eventsOf(effects: readonly Effect[], turn: string, facts = FACTS): readonly ResponseEvent[] {
  return [...begin(facts)[1], ...render(openResponses(facts), effects, turn)];
}

interface Fields {
  readonly type: string;
  readonly output_index: number;
  readonly item: Item;
  readonly response: Resource;
}

/** A client that follows the protocol: it throws if events are out of order. */
export class ResponseReader {
  /** The items by index, and the texts that deltas added up to. */
  readonly items: Item[] = [];
  readonly texts: string[] = [];
  response: Resource | null = null;
  sequence = -1;

  read(event: ResponseEvent): void {
    if (event.sequence_number <= this.sequence) throw new Error(`${event.type} is out of order`);
    this.sequence = event.sequence_number;
    const { type, output_index: index, item, response } = event as unknown as Fields;
    if (this.isOver) throw new Error(`${type} follows the end`);
    if (response) this.response = response;
    else if (type === "response.output_item.added") {
      if (index !== this.items.length) throw new Error(`item ${index} is not the next`);
      if (this.items.some(({ id }) => id === item.id)) throw new Error("an id is not unique");
      this.items.push(item);
      this.texts.push("");
    } else if (this.items[index]?.status !== "in_progress") throw new Error(`${type} of an item that is not open`);
    else if (type === "response.output_item.done") this.items[index] = item;
    else if (type.endsWith(".delta")) this.texts[index] = `${this.texts[index]}${event.delta}`;
  }

  get isOver(): boolean {
    return !["queued", "in_progress", undefined].includes(this.response?.status);
  }

  /** The response has the items of the stream: no text was replaced, and the log has their order. */
  get isInOrder(): boolean {
    const output = (this.response?.output ?? []) as readonly Item[];
    return output.map(({ id }) => id).join() === this.items.map(({ id }) => id).join();
  }

  /** The response, without the ids of items: a client that saw a text replaced has another one. */
  get shown() {
    const { output = [], created_at: _, ...rest } = this.response ?? ({} as Partial<Resource>);
    return { ...rest, output: (output as Item[]).map(({ id: _, ...item }) => item) };
  }
}

export function readResponse(events: readonly ResponseEvent[]): ResponseReader {
  const reader = new ResponseReader();
  for (const event of events) reader.read(event);
  return reader;
}

/** Return the text of an item. */
export function textOf({ content, summary }: Item): string | undefined {
  const [part] = (content ?? summary ?? []) as readonly { text: string }[];
  return part?.text;
}

/** Read server-sent events until the response ends or breaks; return true if it has ended as the protocol does. */
export async function readStream(reader: ResponseReader, response: Response): Promise<boolean> {
  let [text, isDone] = ["", false];
  const pieces = response.body?.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>;
  for await (const piece of pieces) {
    const blocks = `${text}${piece}`.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const [, name, data = ""] = /^event: ([^\n]*)\ndata: ([^\n]*)$/.exec(block) ?? [];
      isDone ||= block === "data: [DONE]";
      if (!name) continue;
      const event = JSON.parse(data) as ResponseEvent;
      if (event.type !== name) throw new Error(`the event ${event.type} has the name ${name}`);
      reader.read(event);
    }
  }
  return isDone;
}
