/** The text about the connection, and when to show it: nothing for 3 s, since most breaks are shorter. Pure. */

import type { LinkState } from "../../client/index.ts";

const QUIET_MS = 3_000;
const SHORT_MS = 30_000;

export type Banner =
  | { readonly is: "none" }
  | { readonly is: "connecting" }
  | { readonly is: "reconnecting" }
  | { readonly is: "offline"; readonly sinceMs: number }
  | { readonly is: "refused" };

/** Return the banner of a link, and the milliseconds until it changes without an event; 0 if it does not. */
export function bannerOf(link: LinkState, nowMs: number): { readonly banner: Banner; readonly changesInMs: number } {
  if (link.is === "refused") return { banner: { is: "refused" }, changesInMs: 0 };
  if (link.is === "open" || link.is === "closed") return { banner: { is: "none" }, changesInMs: 0 };
  const goneMs = nowMs - link.sinceMs;
  if (goneMs < QUIET_MS) return { banner: { is: "none" }, changesInMs: QUIET_MS - goneMs };
  const trying = link.is === "connecting" ? "connecting" : "reconnecting";
  if (goneMs < SHORT_MS) return { banner: { is: trying }, changesInMs: SHORT_MS - goneMs };
  return { banner: { is: "offline", sinceMs: link.sinceMs }, changesInMs: 0 };
}
