/**
 * The input of a request: the message that is sent, or an answer to a request for an approval, and what precedes it.
 *
 * Nothing of a caller is in the agent's instructions, whose prefix is cached: the caller's are in front of the message,
 * under a label.
 */

import { decodeBase64 } from "../../../src/door/upload.ts";
import { BodyRefusal, badField, type Fields, isObject } from "./fields.ts";

export interface Approval {
  /** The id of the item with the request. */
  readonly request: string;
  readonly approve: boolean;
  readonly reason: string;
}

export interface Upload {
  readonly file: Blob;
  readonly filename: string;
}

export interface Input {
  readonly approval: Approval | null;
  readonly text: string;
  readonly uploads: readonly Upload[];
  readonly instructions: string;
  /** The messages before the one that is sent, as the caller has them. */
  readonly history: readonly string[];
}

/** Characters of earlier messages in a message: the newest ones. A stage accepts 32,000 in all by default. */
const HISTORY_CHARS = 16_000;

/** Return the input of a request. Throws Refusal. */
export function readInput(input: unknown, instructions: string): Input {
  if (typeof input !== "string" && !Array.isArray(input)) throw badField("input");
  const given = typeof input === "string" ? (input ? [{ role: "user", content: input }] : []) : input;
  const items = given.map((item, at): Item => readItem(item, `input[${at}]`));
  const from = items.findLastIndex(({ is }) => is === "past" || is === "assistant") + 1;
  const said = items.slice(from).filter(({ is }) => is === "user");
  const answers = items.slice(from).flatMap(({ approval }) => approval ?? []);
  if (answers.length > 1 || (answers.length && said.length)) {
    throw badField("input", "An answer to a request for an approval is sent alone.");
  }
  if (!said.length && !answers.length) {
    throw new BodyRefusal("unsupported_message", "input", "A message of the user is missing at the end of the input.");
  }
  const system = items.filter(({ is }) => is === "system").map(({ item, param }) => textOf(item.content, param));
  const contents = said.map(({ item, param }) => readContent(item.content, `${param}.content`));
  return {
    approval: answers[0] ?? null,
    text: contents.map(({ text }) => text).join("\n\n"),
    uploads: contents.flatMap(({ uploads }) => uploads),
    instructions: [instructions, ...system].filter(Boolean).join("\n\n"),
    history: items.slice(0, from).flatMap(({ is, item, param }) => {
      if (is !== "user" && is !== "assistant") return [];
      return [`${is === "user" ? "User" : "Assistant"}: ${textOf(item.content, `${param}.content`)}`];
    }),
  };
}

/** Return a message with what precedes it: its instructions, and the history if the conversation has none. */
export function composeMessage({ text, instructions, history }: Input, isNew: boolean): string {
  const before = isNew ? newestOf(history) : "";
  if (!instructions && !before) return text;
  return [
    instructions && `Instructions of the application that sends this message:\n${indent(instructions)}`,
    before && `Earlier messages, as the application has them:\n${indent(before)}`,
    `Message:\n${text}`,
  ]
    .filter(Boolean)
    .join("\n\n");
}

function newestOf(history: readonly string[]): string {
  let chars = 0;
  const kept = history.findLastIndex((message) => {
    chars += message.length;
    return chars > HISTORY_CHARS;
  });
  return [...(kept < 0 ? [] : ["(Earlier ones are left out.)"]), ...history.slice(kept + 1)].join("\n\n");
}

/** Indent a text, so that none of its lines looks like a label. */
function indent(text: string): string {
  return text.replace(/^(?=.)/gm, "  ");
}

interface Item {
  readonly is: "user" | "assistant" | "system" | "approval" | "past";
  readonly item: Fields;
  readonly param: string;
  readonly approval?: Approval;
}

/** Return an item. Items that are none of the user's are of the past: calls, results, reasoning, extensions. */
function readItem(item: unknown, param: string): Item {
  if (!isObject(item)) throw badField(param);
  const { type = "message", role } = item;
  if (type === "mcp_approval_response") {
    const { approval_request_id: request, approve, reason } = item;
    if (typeof request !== "string") throw badField(`${param}.approval_request_id`);
    if (typeof approve !== "boolean") throw badField(`${param}.approve`);
    return { is: "approval", item, param, approval: { request, approve, reason: String(reason ?? "") } };
  }
  if (type !== "message") return { is: "past", item, param };
  if (role === "user" || role === "assistant") return { is: role, item, param };
  if (role === "system" || role === "developer") return { is: "system", item, param };
  throw badField(`${param}.role`);
}

/** Read the text and the files of the message that is sent. Throws Refusal. */
function readContent(content: unknown, param: string): { text: string; uploads: readonly Upload[] } {
  if (typeof content === "string") return { text: content, uploads: [] };
  if (!Array.isArray(content)) throw badField(param);
  const texts: string[] = [];
  const uploads: Upload[] = [];
  for (const [at, part] of content.entries()) {
    const place = `${param}[${at}]`;
    const { type, text } = isObject(part) ? part : {};
    if (type === "input_text" && typeof text === "string") texts.push(text);
    else if (type === "input_image" || type === "input_file") uploads.push(readFile(part, place));
    else throw unsupported(place, `a message cannot have this part: ${type}`);
  }
  return { text: texts.join("\n\n"), uploads };
}

/** Return a file by its data: of an image as an address `data:`, of a file as one or as base64. */
function readFile({ type, image_url: image, file_data: data, filename }: Fields, param: string): Upload {
  const given = type === "input_image" ? image : data;
  if (typeof given !== "string")
    throw unsupported(param, "a file has its data in the request, not an id or an address");
  const [, mime = "", base64] = /^data:([^;,]*)(?:;[^,]*)?;base64,(.*)$/s.exec(given) ?? [];
  if (base64 === undefined && (type === "input_image" || given.includes(":"))) {
    throw unsupported(param, "a file has its data in the request, as base64, not by its address");
  }
  const name = typeof filename === "string" && filename ? filename : `file.${mime.split("/")[1] || "bin"}`;
  try {
    return { file: new Blob([decodeBase64(base64 ?? given)]), filename: name };
  } catch (error) {
    throw unsupported(param, (error as Error).message);
  }
}

function unsupported(param: string, message: string): BodyRefusal {
  return new BodyRefusal("unsupported_part", param, message);
}

/** Return the text of a message that is not sent again, with a mark for each file. */
function textOf(content: unknown, param: string): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw badField(param);
  const texts = content.map((part) => {
    const { type, text, refusal, filename = "" } = isObject(part) ? part : {};
    return String(text ?? refusal ?? `(${String(type).replace("input_", "")} ${filename})`.replace(" )", ")"));
  });
  return texts.join("\n\n");
}
