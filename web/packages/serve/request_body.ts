/** The body of a request, as JSON and within a limit. */

import type { IncomingMessage } from "node:http";
import { Refusal } from "./refusal.ts";

const ONE_MAX_BYTES = 32 * 2 ** 20;
const ALL_MAX_BYTES = 128 * 2 ** 20;

/** Bytes that requests of this process are sending at the moment. */
let allBytes = 0;

/** Return the JSON of a body. Throws Refusal. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      bytes += piece.length;
      allBytes += piece.length;
      if (bytes > ONE_MAX_BYTES) throw new Refusal(413, "request_too_large", "A request has at most 32 MiB.", CLOSE);
      if (allBytes > ALL_MAX_BYTES) throw new Refusal(503, "too_many_streams", "Too much is sent at once.", LATER);
      pieces.push(piece);
    }
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(pieces)));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal(400, "bad_message", "The body is not JSON in UTF-8.");
  } finally {
    allBytes -= bytes;
  }
}

/** The rest of the body is not read. */
const CLOSE = { Connection: "close" };
const LATER = { "Retry-After": "5", ...CLOSE };
