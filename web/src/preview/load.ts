/**
 * Bytes of a file, by a short-lived link: fetched by the page alone, never kept.
 *
 * A picture is shown from a blob, so nothing but the page's own fetch leaves; an SVG within `<img>` runs no scripts and loads
 * nothing.
 */

import type { FileLink } from "../api/index.ts";
import { type Kind, kindOf } from "./kind.ts";

/** Makes a link to the bytes; `download` for one that is saved. */
export type OpenFile = (path: string, disposition: "preview" | "download") => Promise<FileLink>;

/** What is larger is not drawn within a thread, but opened on request. */
const INLINE_MAX_BYTES = 8_000_000;

/** Fetch what a link leads to. Rejects if that is not to be had. */
export async function fetchLink(link: FileLink, signal: AbortSignal): Promise<ArrayBuffer> {
  const response = await fetch(link.url, { signal, credentials: "omit", cache: "no-store", redirect: "error" });
  if (!response.ok) throw new Error(`the file was not given: ${response.status}`);
  return response.arrayBuffer();
}

/** Return the address of a blob, by the type that was judged to be a picture's, not by the one that an answer claims. */
export function blobOf(kind: Kind & { is: "image" }, bytes: ArrayBuffer): string {
  return URL.createObjectURL(new Blob([bytes], { type: kind.mime }));
}

/** As `Acts.loadPicture`. */
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
