/**
 * Untrusted names and addresses as one line, with invisible characters shown.
 *
 * Hidden are controls, characters that reorder text or have no width, fillers, tags and halves of a surrogate pair.
 * Prose keeps its own: a joiner within a word is harmless, within a file's name it may be an attack.
 */

const HIDDEN =
  /\u034f|[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]|\u17b4|\u17b5|[\u{e0100}-\u{e01ef}]|(?![\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2])\p{Cf}/gu;
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const BREAKS = /[\t\n\v\f\r\u0085\u2028\u2029]+/g;

/** The maximum shown length of a name. */
const NAME_CHARS = 200;

function sign(char: string): string {
  return `‹U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`;
}

/**
 * Return an untrusted name, path or address as one line of at most `max` characters, every hidden character as
 * `‹U+202E›`.
 */
export function visible(text: string, max = NAME_CHARS): string {
  // Four times the maximum is enough, whatever a character becomes; a name of a megabyte is not read in full.
  const head = text.length > max * 4 ? text.slice(0, max * 4) : text;
  const chars = [...head.replace(BREAKS, " ")];
  const cut = chars.length > max || head.length < text.length;
  const kept = (cut ? `${chars.slice(0, max).join("")}…` : chars.join("")).replace(HIDDEN, sign);
  return kept.replace(/ {2,}/g, " ");
}

/** Return code with reordering characters shown: a program must run in the order in which it is read. */
export function visibleOrder(code: string): string {
  return code.replace(BIDI, sign);
}
