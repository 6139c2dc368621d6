/** Resolves a link of an untrusted text: to the web, to a path of this conversation, or nowhere. */

import { decodeReferences } from "./entities.ts";
import { parsePath } from "./path.ts";
import { visible } from "./visible.ts";

export type Target =
  /** `shown` is the text that the user must see before a click: the host, or the mail address. */
  | { readonly is: "web"; readonly href: string; readonly shown: string }
  | { readonly is: "path"; readonly path: string }
  | { readonly is: "nowhere"; readonly shown: string };

const ADDRESS = /^(?:https?:\/\/|mailto:)/i;
const ADDRESS_CHARS = 8_192;
/** The characters that the server encodes in a path in a link (`stepline/protocol/citation/hyperlink.py`). */
const ENCODED = /%(?:20|22|27|28|29|3C|3E|5C|5E|60|7B|7C|7D)/gi;
const CITATION = /^S:([1-9][0-9]{0,5})$/;

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that encodes nothing
  }
}

/** Return the target of an address. Any address outside the short list of allowed ones has none. */
export function resolveTarget(address: string, conversation: string): Target {
  const text = decodeReferences(address).trim();
  const nowhere = { is: "nowhere", shown: visible(text) } as const;
  if (text.length > ADDRESS_CHARS) return nowhere;
  const path = parsePath(text.replace(ENCODED, decoded), conversation);
  if (path) return { is: "path", path };
  if (!ADDRESS.test(text) || !URL.canParse(text)) return nowhere;
  const url = new URL(text);
  if (url.protocol === "mailto:") return { is: "web", href: url.href, shown: visible(decoded(url.pathname)) };
  if (url.protocol !== "https:" && url.protocol !== "http:") return nowhere;
  // A user name before the host is meant to be mistaken for one.
  url.username = "";
  url.password = "";
  return { is: "web", href: url.href, shown: visible(url.host) };
}

/** Return the number of the source if the title of a link marks a citation, else 0. */
export function citedSource(title: string | null | undefined): number {
  const found = CITATION.exec(title ?? "");
  return found ? Number(found[1]) : 0;
}
