/** Makes untrusted text safe to show: hidden characters become symbols, long lines are cut, long texts folded. Pure. */

/** Larger texts are folded until the user expands them. */
export const FOLDED_BYTES = 20 * 1024;
/** The number of lines shown of a longer text. */
export const SHOWN_LINES = 12;
const LINE_CHARS = 160;

/** Controls except tab and line feed, and characters that change others or have no width. */
const HIDDEN =
  /(?![\t\n])\p{Cc}|[\u180e\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e007f}]/gu;

/** Return the text with a symbol for each hidden character: U+2400… for controls, U+FFFD for others. */
export function showHidden(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(HIDDEN, (found) => {
    const code = found.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "␡" : "\ufffd";
  });
}

/** Return the text as one line of at most `chars` characters; a cut line ends in "…". */
export function oneLine(text: string, chars: number = LINE_CHARS): string {
  const line = showHidden(text).split(/\s+/u).filter(Boolean).join(" ");
  const points = [...line.slice(0, 2 * chars + 2)];
  return points.length <= chars ? line : `${points.slice(0, chars - 1).join("")}…`;
}

/** The beginning of a text, and its full size. */
export interface Cut {
  readonly shown: string;
  readonly lines: number;
  readonly bytes: number;
  readonly whole: boolean;
}

/** Return the part of a text that is shown at once: some lines, or one line if the text exceeds `FOLDED_BYTES`. */
export function cutText(text: string): Cut {
  const all = showHidden(text.replace(/^\n+|\n+$/g, ""));
  const lines = all.split("\n");
  const bytes = byteLength(text);
  const shown = lines.slice(0, bytes > FOLDED_BYTES ? 1 : SHOWN_LINES).join("\n");
  // A single line may be a megabyte long.
  const cut = shown.length > FOLDED_BYTES ? shown.slice(0, 400) : shown;
  return { shown: cut, lines: lines.length, bytes, whole: cut.length === all.length };
}

/** Return the size of a text in UTF-8 bytes. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}
