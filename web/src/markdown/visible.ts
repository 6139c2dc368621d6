/**
 * Names and addresses of strangers on one line, with the characters shown that nobody would see.
 *
 * Hidden are controls, what reorders text, what has no width, fillers, tags and halves of a surrogate pair. Prose keeps its own:
 * a joiner within a word is not an attack, within a file's name it may be one.
 */

const HIDDEN =
  /\u034f|[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]|\u17b4|\u17b5|[\u{e0100}-\u{e01ef}]|(?![\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2])\p{Cf}/gu;
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const BREAKS = /[\t\n\v\f\r\u0085\u2028\u2029]+/g;

/** How much of a name is shown. */
const NAME_CHARS = 200;

function sign(char: string): string {
  return `‹U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`;
}

/** Return a stranger's name, path or address as one line of at most `max` characters, every hidden character as `‹U+202E›`. */
export function visible(text: string, max = NAME_CHARS): string {
  // Four times as much is enough to be cut, whatever a character becomes; a name of a megabyte is not read whole.
  const head = text.length > max * 4 ? text.slice(0, max * 4) : text;
  const chars = [...head.replace(BREAKS, " ")];
  const cut = chars.length > max || head.length < text.length;
  const kept = (cut ? `${chars.slice(0, max).join("")}…` : chars.join("")).replace(HIDDEN, sign);
  return kept.replace(/ {2,}/g, " ");
}

/** Return code with the characters shown that reorder it: a program has to run in the order in which it is read. */
export function visibleOrder(code: string): string {
  return code.replace(BIDI, sign);
}
