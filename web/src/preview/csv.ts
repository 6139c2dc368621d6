/** Parses comma-separated values (RFC 4180) leniently: it rejects no text, and every cell is text. */

export interface CsvTable {
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const SEPARATORS = [",", ";", "\t", "|"];
/** The length of the sample from which the separator is detected. */
const SAMPLE_CHARS = 10_000;

/** Return the separator that occurs most often in the first line, outside quotes; a comma if none does. */
export function findSeparator(text: string): string {
  const counts = new Map(SEPARATORS.map((separator) => [separator, 0]));
  let quoted = false;
  for (const char of text.slice(0, SAMPLE_CHARS)) {
    if (char === '"') quoted = !quoted;
    else if (char === "\n" && !quoted) break;
    else if (!quoted && counts.has(char)) counts.set(char, (counts.get(char) ?? 0) + 1);
  }
  return SEPARATORS.reduce((best, one) => ((counts.get(one) ?? 0) > (counts.get(best) ?? 0) ? one : best));
}

/** Return the records of a text. An unclosed quote holds the rest of the text. Blank lines are skipped. */
export function parseCsv(text: string, separator: string): string[][] {
  const records: string[][] = [];
  const special = new RegExp(`["\\r\\n${separator === "|" ? "\\|" : separator}]`, "g");
  let record: string[] = [];
  let cell = "";
  let at = 0;
  const endRecord = () => {
    if (record.length > 0 || cell !== "") records.push([...record, cell]);
    record = [];
    cell = "";
  };
  while (at < text.length) {
    if (text[at] === '"' && cell === "") {
      const [value, end] = readQuoted(text, at + 1);
      cell = value;
      at = end;
    }
    special.lastIndex = at;
    let found = special.exec(text);
    while (found?.[0] === '"') found = special.exec(text); // a quote within a cell is a normal character
    const end = found?.index ?? text.length;
    cell += text.slice(at, end);
    at = end + 1;
    if (found?.[0] === separator) {
      record.push(cell);
      cell = "";
    } else {
      if (found?.[0] === "\r" && text[at] === "\n") at += 1;
      endRecord();
    }
  }
  if (record.length > 0) endRecord();
  return records;
}

/** Return the value of a quoted cell whose text begins at `at`, and the offset after its closing quote. */
function readQuoted(text: string, at: number): [string, number] {
  const parts: string[] = [];
  for (let from = at; ; ) {
    const quote = text.indexOf('"', from);
    if (quote < 0) return [parts.join("") + text.slice(from), text.length];
    if (text[quote + 1] !== '"') return [parts.join("") + text.slice(from, quote), quote + 1];
    parts.push(text.slice(from, quote + 1));
    from = quote + 2;
  }
}

/** Return a text as a table; its first record is the header. */
export function readCsv(text: string): CsvTable {
  const [header = [], ...rows] = parseCsv(text, findSeparator(text));
  return { header, rows };
}
