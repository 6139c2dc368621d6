/** Finds the end of a bare address in a sentence without a space after it. */

import { UNSPACED } from "./scripts.ts";

const ADDRESS = /^(?:https?:\/\/|ftp:\/\/|www\.)[^\s<]*/i;
const LETTER = `[${UNSPACED}]`;
/** The host before such a letter, if no path has begun. */
const HOST = new RegExp(`^(?:[a-z]+://)?[^/?#]*/?(?=${LETTER})`, "iu");
/** Punctuation that no unencoded address contains, or such a letter within a word. */
const END = new RegExp(
  `[\\u00b7\\u2010-\\u2027\\u2e3a\\u2e3b\\u3000-\\u3004\\u3008-\\u303f\\u30fb\\ufe10-\\ufe6f\\uff01-\\uff0f\\uff1a-\\uff20\\uff3b-\\uff40\\uff5b-\\uff65]|(?<!${LETTER}|[/=_#&+-])${LETTER}`,
  "u",
);

/**
 * Return a text up to the end of the address at its beginning; the whole text if it does not begin with one.
 *
 * A letter of a script without spaces belongs to the address if it begins a part of a path or of a query, as in
 * `/wiki/日本語`. After a host or another letter, it continues the sentence: `https://a.example/docs请看`.
 */
export function cutAddress(text: string): string {
  const address = ADDRESS.exec(text)?.[0];
  if (address === undefined) return text;
  const ends = [HOST.exec(address)?.[0].length ?? -1, address.search(END)].filter((end) => end >= 0);
  return ends.length > 0 ? text.slice(0, Math.min(...ends)) : text;
}
