/**
 * Measure a file before its upload: its hash, and its type where the name says nothing.
 *
 * The browser computes the hash beside the page's own thread. A worker of ours would need a policy of Trusted Types, of
 * which the page has none.
 */

import type { Measured } from "./attachments.ts";

export async function measureFile(file: File): Promise<Measured> {
  const bytes = await file.arrayBuffer();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  // The server goes by the name: browsers call a CSV a spreadsheet, and TypeScript a video.
  return { sha256, mime: file.type === "" && isText(bytes) ? "text/plain" : "" };
}

function isText(bytes: ArrayBuffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
