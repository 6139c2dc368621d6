/** Where a link of an untrusted text leads: to the web, to a path of this conversation, or nowhere. */

import { decodeReferences } from "./entities.ts";
import { parsePath } from "./path.ts";
import { visible } from "./visible.ts";

export type Target =
  /** `shown` is what a reader has to know before a click: the host, or the address of a mail. */
  | { readonly is: "web"; readonly href: string; readonly shown: string }
  | { readonly is: "path"; readonly path: string }
  | { readonly is: "nowhere"; readonly shown: string };

const ADDRESS = /^(?:https?:\/\/|mailto:)/i;
const ADDRESS_CHARS = 8_192;
/** What the server encodes in a path that stands in a link (`stepline/protocol/citation/hyperlink.py`), and nothing else. */
const ENCODED = /%(?:20|22|27|28|29|3C|3E|5C|5E|60|7B|7C|7D)/gi;
const CITATION = /^S:([1-9][0-9]{0,5})$/;

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that encodes nothing
  }
}

/** Return where an address leads. Whatever is not on the short list of what may be opened leads nowhere. */
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
  // A name before the host is there to be taken for one.
  url.username = "";
  url.password = "";
  return { is: "web", href: url.href, shown: visible(url.host) };
}

/** Return the number of the source if the title of a link says that it is a citation, else 0. */
export function citedSource(title: string | null | undefined): number {
  const found = CITATION.exec(title ?? "");
  return found ? Number(found[1]) : 0;
}
