/** Names of the protocol that carry what they name, so that the server keeps nothing. They are opaque to clients. */

import { ClientError } from "../../../src/client/index.ts";
import { decodeBase64 } from "../../../src/door/upload.ts";

/** A response is what follows a message, or an answer to a request for an approval: `id` is the message's or the call's. */
export interface ResponseName {
  readonly conversation: string;
  readonly after: "message" | "answer";
  readonly id: string;
  /** The model of the request. */
  readonly model: string;
}

export function responseId({ conversation, after, id, model }: ResponseName): string {
  return encode("resp", [conversation, after, id, model]);
}

/** Return what a response's id names. Throws ClientError `not_found`. */
export function readResponseId(text: string): ResponseName {
  const [conversation, after, id, model] = decode("resp", text, 4) as [string, string, string, string];
  if (after !== "message" && after !== "answer") throw unknownName(text);
  return { conversation, after, id, model };
}

/** Return the id of an item about a call that waits for an approval, or of a file by its path. */
export function itemId(prefix: "mcpr" | "file", conversation: string, name: string): string {
  return encode(prefix, [conversation, name]);
}

/** Return what an item's id names. Throws ClientError `not_found`. */
export function readItemId(prefix: "mcpr" | "file", text: string): { conversation: string; name: string } {
  const [conversation, name] = decode(prefix, text, 2) as [string, string];
  return { conversation, name };
}

function encode(prefix: string, words: readonly string[]): string {
  const letters = Array.from(new TextEncoder().encode(words.join("\n")), (byte) => String.fromCharCode(byte)).join("");
  return `${prefix}_${btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

function decode(prefix: string, text: string, count: number): readonly string[] {
  const [, base64 = ""] = text.split(`${prefix}_`, 2);
  try {
    const bytes = decodeBase64(base64.replaceAll("-", "+").replaceAll("_", "/"));
    const words = new TextDecoder("utf-8", { fatal: true }).decode(bytes).split("\n");
    if (words.length === count && encode(prefix, words) === text) return words;
  } catch {
    throw unknownName(text);
  }
  throw unknownName(text);
}

function unknownName(text: string): ClientError {
  return new ClientError("not_found", `this server has not given the id ${text.slice(0, 80)}`);
}
