/** A message of the user, as the log has it, in parts of the AI SDK. */

import type { FileUIPart, TextUIPart } from "ai";
import type { ClientEvent } from "../../src/client/index.ts";

/** The prefix of addresses that `link` of the transport resolves. */
export const FILE = "stepline:";

/** Return the text and the files of an accepted message. A file without a path in the log has the bare prefix. */
export function userParts({ text, attachments }: ClientEvent["data"]): (TextUIPart | FileUIPart)[] {
  const files = (attachments ?? []) as readonly Readonly<Record<string, unknown>>[];
  return [
    ...files.map(
      ({ path = "", filename, mime }): FileUIPart => ({
        type: "file",
        url: FILE + String(path),
        mediaType: String(mime),
        filename: String(filename),
      }),
    ),
    { type: "text", text: String(text) },
  ];
}
