/** A sentence for every code that a client can meet: of refusals, turns, tools, notices, programs and files. */
export const codes: Readonly<Record<string, string>> = {
  busy: "Not sent yet, trying again.",
};
