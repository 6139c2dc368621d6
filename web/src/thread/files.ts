/** Files that were offered: one row a path, by the newest turn that wrote it. */

import type { ClientEvent } from "../client/index.ts";
import { numberOf, rowsOf, textOf } from "./fields.ts";
import type { FileRow } from "./thread.ts";

const PICTURE = /^image\/(?:png|jpeg|webp|gif|svg\+xml)$/;

/** Return true for a type that is shown as a picture. */
export function isPicture(mime: string): boolean {
  return PICTURE.test(mime);
}

/** Return true if a file of another turn, or folder, has the same name. */
export function hasNamesake(files: readonly FileRow[], file: FileRow): boolean {
  return files.some((other) => other.filename === file.filename && other.path !== file.path);
}

export function filesOf(event: ClientEvent): readonly FileRow[] {
  return rowsOf(event.data, "items").map((item) => ({
    path: textOf(item, "logical_path"),
    filename: textOf(item, "filename"),
    mime: textOf(item, "mime"),
    sizeBytes: numberOf(item, "size_bytes"),
    sha256: textOf(item, "sha256"),
    callId: textOf(item, "call_id"),
    turnId: event.turn_id,
    times: 1,
  }));
}

/** Add rows after the existing ones; an existing path moves to the end. */
export function withFiles(files: readonly FileRow[], added: readonly FileRow[]): readonly FileRow[] {
  const rows = new Map(files.map((file) => [file.path, file]));
  for (const file of added) {
    const times = file.times + (rows.get(file.path)?.times ?? 0);
    rows.delete(file.path);
    rows.set(file.path, { ...file, times });
  }
  return [...rows.values()];
}
