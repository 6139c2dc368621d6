/**
 * Footnotes: `[^name]` in a text, and `[^name]: words` where they are explained.
 *
 * An explanation stays where it was written, and the sign of a footnote is its name. No counting is needed, and later
 * text changes no number.
 */

export interface Note {
  readonly raw: string;
  readonly name: string;
  readonly text: string;
}

const NAME = "\\[\\^([^\\][\\s\\\\^]{1,64})\\]";
const DEFINITION = new RegExp(`^ {0,3}${NAME}:[ \\t]*`);
const REFERENCE = new RegExp(`^${NAME}(?![([])`);
/** Starts of other blocks, which end the first paragraph of a note. */
const OTHER = /^ {0,3}(?:#{1,6}[ \t]|>|`{3}|~{3}|[-+*][ \t]|[0-9]{1,9}[.)][ \t]|\||\$\$|\[[^\]]+\]:)/;
const INDENT = /^(?: {4}|\t)/;

/** Return the explanation at the beginning of a text; null if there is none. */
export function readNote(text: string): Note | null {
  const found = DEFINITION.exec(text);
  if (!found) return null;
  const own: string[] = [];
  let blanks = 0;
  let end = 0;
  for (let start = found[0].length; start < text.length; ) {
    const feed = text.indexOf("\n", start);
    const next = feed < 0 ? text.length : feed + 1;
    const line = text.slice(start, feed < 0 ? text.length : feed);
    if (own.length > 0 && line.trim() === "") {
      blanks += 1;
    } else {
      const isOwn = own.length === 0 || INDENT.test(line) || !(blanks > 0 || OTHER.test(line) || DEFINITION.test(line));
      if (!isOwn) break;
      own.push(...Array.from({ length: blanks }, () => ""), own.length === 0 ? line : line.replace(INDENT, ""));
      blanks = 0;
      end = next;
    }
    start = next;
  }
  return { raw: text.slice(0, Math.max(end, found[0].length)), name: found[1] ?? "", text: own.join("\n") };
}

/** Return the name and the source of the footnote at the beginning of a text; null if there is none. */
export function readReference(text: string): { readonly raw: string; readonly name: string } | null {
  const found = REFERENCE.exec(text);
  return found && { raw: found[0], name: found[1] ?? "" };
}

/** Return the key of a footnote among the definitions of names. */
export function noteKey(name: string): string {
  return `^${name.toLowerCase().toUpperCase().toLowerCase()}`;
}
