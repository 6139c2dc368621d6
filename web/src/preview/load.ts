/**
 * The bytes of a file, by a short-lived link. The page fetches them itself and stores nothing.
 *
 * A picture is shown from a blob, so the page's own fetch is the only request. An SVG within `<img>` runs no scripts
 * and loads nothing.
 */

import type { FileLink } from "../api/index.ts";
import { type Kind, kindOf } from "./kind.ts";

/** Creates a link to the bytes; `download` makes the browser save them. */
export type OpenFile = (path: string, disposition: "preview" | "download") => Promise<FileLink>;

/** Larger pictures are not shown in the thread, but opened on request. */
const INLINE_MAX_BYTES = 8_000_000;

/** Fetch the content of a link. Rejects if it is not available. */
export async function fetchLink(link: FileLink, signal: AbortSignal): Promise<ArrayBuffer> {
  const response = await fetch(link.url, { signal, credentials: "omit", cache: "no-store", redirect: "error" });
  if (!response.ok) throw new Error(`the file was not given: ${response.status}`);
  return response.arrayBuffer();
}

/**
 * Return the address of a blob. Its type is the one that the page accepted as a picture's, not the one in the response.
 */
export function blobOf(kind: Kind & { is: "image" }, bytes: ArrayBuffer): string {
  return URL.createObjectURL(new Blob([bytes], { type: kind.mime }));
}

/** Implements `Acts.loadPicture`. */
export async function loadPicture(open: OpenFile, path: string, signal: AbortSignal): Promise<string> {
  try {
    const link = await open(path, "preview");
    const kind = kindOf(link.mime, path);
    if (kind.is !== "image" || link.size_bytes > INLINE_MAX_BYTES) return "";
    return blobOf(kind, await fetchLink(link, signal));
  } catch {
    return "";
  }
}
