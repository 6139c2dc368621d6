/** The transport of `useChat`: one conversation of a stage, over its websocket. */

import { type ChatTransport, isToolUIPart, readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { ClientError, type ClientEvent, type ClientState, emptyState, type Session } from "../../src/client/index.ts";
import { followMessage } from "../../src/door/sent.ts";
import { checkPosition, movePosition, type Past, Stage, type StageOptions } from "../../src/door/stage.ts";
import { type EventPart, foldTurn, follow, followFrom, pauseOf } from "../../src/door/turn_parts.ts";
import { type Following, streamTurn } from "../../src/door/turn_stream.ts";
import { decodeBase64 } from "../../src/door/upload.ts";
import { AI_SDK, type TurnMetadata } from "./mapping.ts";
import { FILE, userParts } from "./user_message.ts";

type Sent = Parameters<ChatTransport<UIMessage>["sendMessages"]>[0];
type Resumed = Parameters<ChatTransport<UIMessage>["reconnectToStream"]>[0];

/** Options of one message, in `body`. A steer interrupts the open turn; `params` replace those of an approved call. */
export interface MessageBody {
  readonly kind?: "steer";
  readonly params?: Readonly<Record<string, unknown>>;
}

/** Return the transport of a conversation. */
export function steplineTransport(options: StageOptions): SteplineTransport {
  return new SteplineTransport(new Stage(options));
}

/** The turns of a conversation that a page shows first. */
const TURNS = 20;

export class SteplineTransport implements ChatTransport<UIMessage> {
  /** A resumed turn is sent from its beginning, and replaces what the page has of it. */
  readonly resumeStreamIsReplay = true;
  readonly #stage: Stage;
  /** The newest batch that a stream of this transport has received; -1 before the first. */
  #n = -1;
  /** Counts the readers: an abort by the next one is no stop. */
  #readers = 0;
  /** The turns that the page has, the last one perhaps in part. */
  readonly #shown = new Set<string>();
  /** The turn that the page has in part, "" for none. */
  #partial = "";

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  async sendMessages(sent: Sent): Promise<ReadableStream<UIMessageChunk>> {
    const reader = this.#reader(sent.abortSignal);
    const body = (sent.body ?? {}) as MessageBody;
    const message = sent.messages.find(({ id }) => id === sent.messageId) ?? sent.messages.at(-1);
    if (message?.role === "assistant") return this.#answer(message, body, reader);
    if (message?.role !== "user") throw new ClientError("unsupported_message", "a message of the user is missing");
    // A message that is asked again or edited is another message of the log, which keeps the first.
    const isAnother = sent.trigger === "regenerate-message" || message.id === sent.messageId;
    const [text, uploads] = await this.#read(message, isAnother);
    const messageId = isAnother ? crypto.randomUUID() : message.id;
    const send = (session: Session) =>
      body.kind === "steer" ? session.tell("steer", {}, { text, uploads }) : session.say(text, { messageId, uploads });
    const following =
      this.#n < 0
        ? await followMessage(this.#stage, messageId, text, send, sent.abortSignal)
        : { state: emptyState(this.#stage.conversation, this.#n), cursor: follow({ message: messageId }), send };
    sent.abortSignal?.throwIfAborted();
    return streamTurn(this.#stage, AI_SDK, { ...following, ...reader });
  }

  /** Resume the turn that the page has in part, by `body.turn` if it is another page, else the open turn. */
  async reconnectToStream({ abortSignal, body }: Resumed): Promise<ReadableStream<UIMessageChunk> | null> {
    const reader = this.#reader(abortSignal);
    const partial = (body as { turn?: string } | undefined)?.turn ?? this.#partial;
    let past = await this.#stage.readTurns(1, abortSignal);
    if (past && partial && !beginsIn(past, partial)) past = await this.#stage.readTurns(TURNS, abortSignal);
    if (!past) return null;
    const { open, turnId } = past.state;
    const turn = partial && beginsIn(past, partial) ? partial : open ? turnId : "";
    return turn ? streamTurn(this.#stage, AI_SDK, { ...past, cursor: follow({ turn }), ...reader }) : null;
  }

  /** Stop the open turn, also one that waits for a person. Throws ClientError with the code of a refusal. */
  stop(): Promise<void> {
    return this.#stage.send((session) => session.stop());
  }

  /** Read the messages of the newest turns, for the first render of a page. Throws ApiError. */
  async messages(turns = TURNS): Promise<UIMessage[]> {
    const past = await this.#stage.readTurns(turns);
    if (!past) return [];
    this.#n = Math.max(this.#n, past.state.cursor);
    this.#partial = past.state.turnId;
    const messages = await readMessages(past);
    for (const { id, role } of messages) if (role === "assistant") this.#shown.add(id);
    return messages;
  }

  /** Return a short-lived address of a file part. Throws ApiError. */
  async link(url: string): Promise<string> {
    if (!url.startsWith(FILE)) throw new ClientError("bad_path", "this is no file of the conversation");
    return (await this.#stage.link(url.slice(FILE.length))).url;
  }

  /** Answer a request for an approval, and continue its message. */
  #answer(message: UIMessage, { params }: MessageBody, reader: Partial<Following>): ReadableStream<UIMessageChunk> {
    const part = message.parts.filter(isToolUIPart).findLast(({ state }) => state === "approval-responded");
    if (part?.state !== "approval-responded") {
      throw new ClientError("approval_not_pending", "the message has no answered request for an approval");
    }
    const { n = 0, turn = message.id } = (message.metadata ?? {}) as TurnMetadata;
    const { id, approved, reason = "" } = part.approval;
    const past = emptyState(this.#stage.conversation, checkPosition(n));
    const state: ClientState = { ...past, open: true, turnId: turn, approval: id };
    const verdict = approved ? (params ? "edit" : "approve") : "deny";
    const send = (session: Session) => session.answer(verdict, id, { params: params ?? {}, text: reason });
    return streamTurn(this.#stage, AI_SDK, { state, cursor: followFrom(turn), send, ...reader });
  }

  /** Read a message's text, and upload its files; the conversation already has those of a message that is `known`. */
  async #read(message: UIMessage, known: boolean): Promise<[text: string, uploads: readonly string[]]> {
    const texts: string[] = [];
    const uploads: Promise<string>[] = [];
    for (const part of message.parts) {
      const url = part.type === "file" ? part.url : "";
      if (part.type === "text") texts.push(part.text);
      else if (part.type === "file" && url.startsWith("data:")) uploads.push(this.#upload(url, part.filename));
      else if (!(known && url.startsWith(FILE)))
        throw new ClientError("unsupported_part", `a message cannot have this part: ${part.type}`);
    }
    return [texts.join("\n\n"), await Promise.all(uploads)];
  }

  async #upload(url: string, filename = "file"): Promise<string> {
    const [head = "", body] = url.split(/,(.*)/s);
    if (body === undefined) throw new ClientError("unsupported_part", "the address of a file has no data");
    const bytes = head.endsWith(";base64") ? decodeBase64(body) : decodePercent(body);
    return this.#stage.upload(new Blob([bytes]), filename);
  }

  /** An abort stops the turn, unless the next reader has already replaced this one. */
  #reader(signal: AbortSignal | undefined): Omit<Following, "state" | "cursor"> {
    this.#readers += 1;
    const reader = this.#readers;
    return {
      signal,
      isStop: () => reader === this.#readers,
      onState: ({ cursor }) => {
        this.#n = movePosition(this.#n, cursor);
      },
      onTurn: (turn, isEnded) => {
        this.#shown.add(turn);
        this.#partial = isEnded ? "" : turn;
      },
      joined: async (turn) => (this.#shown.has(turn) ? [] : ((await this.#stage.readTurns(2))?.effects ?? [])),
    };
  }
}

function beginsIn({ effects }: Past, turn: string): boolean {
  const begins = (events: readonly ClientEvent[]) =>
    events.some((event) => event.type === "chat.start" && event.turn_id === turn);
  return effects.some((effect) => effect.kind === "eventsApplied" && begins(effect.events));
}

function decodePercent(text: string): Uint8Array<ArrayBuffer> {
  try {
    return new TextEncoder().encode(decodeURIComponent(text));
  } catch {
    throw new ClientError("unsupported_part", "the data of a file is escaped wrongly");
  }
}

/** Return the messages of past turns: each turn's prompts, then its message. */
async function readMessages({ effects }: Past): Promise<UIMessage[]> {
  const messages: UIMessage[] = [];
  const accepted = new Map<number, EventPart>();
  for (const effect of effects) {
    if (effect.kind !== "eventsApplied") continue;
    for (const event of effect.events) {
      if (event.type === "chat.conversation.accepted") accepted.set(effect.n, { is: "event", n: effect.n, event });
      if (event.type !== "chat.start") continue;
      for (const n of event.data.prompts as readonly number[]) {
        const data = accepted.get(n)?.event.data;
        if (data) messages.push({ id: String(data.message_id), role: "user", parts: userParts(data) });
      }
      messages.push(await readTurn(effects, event.turn_id));
    }
  }
  return messages;
}

async function readTurn(effects: Past["effects"], turn: string): Promise<UIMessage> {
  let [cursor, state] = [follow({ turn }), AI_SDK.empty];
  const chunks: UIMessageChunk[] = [];
  for (const effect of effects) {
    const [next, changes] = foldTurn(cursor, effect);
    cursor = next;
    for (const change of changes) {
      const [rendered, values] = AI_SDK.render(state, change);
      state = rendered;
      chunks.push(...values);
    }
  }
  for (const change of pauseOf(cursor)) chunks.push(...AI_SDK.render(state, change)[1]);
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let message: UIMessage = { id: turn, role: "assistant", parts: [] };
  for await (const read of readUIMessageStream({ message, stream })) message = read;
  return message;
}
