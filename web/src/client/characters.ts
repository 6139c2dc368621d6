/** Text by character (code point), as the server counts it. */

/**
 * Replace each unpaired surrogate in a JSON value with a question mark, in strings and names. The server rejects them
 * in JSON.
 */
export function wellFormed<T>(value: T): T {
  return wellFormedOf(value) as T;
}

function wellFormedOf(value: unknown): unknown {
  if (typeof value === "string") return value.replace(/\p{Surrogate}/gu, "?");
  if (Array.isArray(value)) return value.map(wellFormedOf);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [wellFormedOf(name), wellFormedOf(one)]));
}

/** Return the number of characters of a text. */
export function countCharacters(text: string): number {
  let count = text.length;
  for (let at = 1; at < text.length; at += 1) {
    if (isLow(text.charCodeAt(at)) && isHigh(text.charCodeAt(at - 1))) count -= 1;
  }
  return count;
}

/** Return a text without its first `count` characters. */
export function dropCharacters(text: string, count: number): string {
  let at = 0;
  for (let left = count; left > 0 && at < text.length; left -= 1) at += widthAt(text, at);
  return text.slice(at);
}

/** Return the number of bytes of a well-formed text in UTF-8. */
export function countUtf8Bytes(text: string): number {
  let bytes = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    // Each half of a surrogate pair counts for two of the character's four bytes.
    bytes += unit < 0x80 ? 1 : unit < 0x800 || isHigh(unit) || isLow(unit) ? 2 : 3;
  }
  return bytes;
}

function widthAt(text: string, at: number): number {
  return isHigh(text.charCodeAt(at)) && isLow(text.charCodeAt(at + 1)) ? 2 : 1;
}

function isHigh(unit: number): boolean {
  return (unit & 0xfc00) === 0xd800;
}

function isLow(unit: number): boolean {
  return (unit & 0xfc00) === 0xdc00;
}
