/** Recorded answers of the HTTP API, served like a `fetch` response; `record.py` stored them. */

export interface Recorded {
  readonly conversation: string;
  /** The data of `accounting.usage`, by turn. */
  readonly usage: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The output of `stepline log`, by batch. */
  readonly lines: Readonly<Record<string, readonly string[]>>;
  /** By the part after the conversation's address. */
  readonly answers: Readonly<Record<string, unknown>>;
  /** The same, for an admin. */
  readonly admin: Readonly<Record<string, unknown>>;
}

/** Return the content of a file by `record.py`. */
export function parseRecorded(text: string): Recorded {
  const [head, ...rows] = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const named = (name: string) =>
    Object.fromEntries(rows.filter((row) => name in row).map((row) => [row[name], row.answer]));
  return { ...head, answers: named("what"), admin: named("admin") };
}

function reply(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
}

/** Return a `fetch` over the recording; any other request is answered with not found. */
export function answering(data: Recorded, admin = false): (address: string, init?: RequestInit) => Promise<Response> {
  return async (address) => {
    const prefix = `/v1/conversations/${data.conversation}/`;
    const what = decodeURIComponent(address.slice(address.indexOf(prefix) + prefix.length));
    const found = (admin ? data.admin[what] : undefined) ?? data.answers[what];
    if (found !== undefined) return reply(found);
    const code = what.startsWith("blocks") ? "not_found" : "round_not_found";
    return reply({ title: "Not found", status: 404, code, detail: `not recorded: ${what}`, type: "about:blank" }, 404);
  };
}
