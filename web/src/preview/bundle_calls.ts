/**
 * The calls of the HTTP API that a bundle's own page may make with its user's rights: to read the user's data, and to
 * rate it.
 *
 * Not allowed are calls whose answer grants access by itself (tickets of the socket, links to files, uploads), calls
 * that cannot be undone, and those of admins.
 */

const SEGMENT = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}";
const TURN = "turn_[A-Za-z0-9_-]{1,64}";
const NUMBER = "[0-9]{1,15}";
const CONVERSATION = `/v1/conversations/${SEGMENT}`;

interface Allowed {
  readonly method: string;
  readonly path: RegExp;
  /** The answer has no body. */
  readonly empty: boolean;
}

function allow(method: string, path: string, empty = false): Allowed {
  return { method, path: new RegExp(`^${path}$`), empty };
}

const ALLOWED: readonly Allowed[] = [
  allow("GET", "/v1/conversations"),
  allow("GET", CONVERSATION),
  allow("PATCH", CONVERSATION, true),
  allow("GET", `${CONVERSATION}/events`),
  allow("PUT", `${CONVERSATION}/read`, true),
  allow("GET", `${CONVERSATION}/branches`),
  allow("GET", `${CONVERSATION}/forks`),
  allow("GET", "/v1/search"),
  allow("GET", `${CONVERSATION}/timeline`),
  allow("GET", `${CONVERSATION}/requests/${NUMBER}`),
  allow("GET", `${CONVERSATION}/requests/${NUMBER}/diff`),
  allow("GET", `${CONVERSATION}/decisions/${NUMBER}`),
  allow("GET", `${CONVERSATION}/log`),
  allow("GET", `${CONVERSATION}/blocks`),
  allow("GET", `${CONVERSATION}/receipts`),
  allow("GET", `${CONVERSATION}/effects`),
  allow("GET", `${CONVERSATION}/export`),
  allow("GET", `${CONVERSATION}/files`),
  allow("PUT", `${CONVERSATION}/turns/${TURN}/feedback`),
  allow("GET", "/v1/feedback"),
];

const QUERY = /^[A-Za-z0-9_\-.~%&=+:,]{0,2000}$/;

/** Return how a call may be made, or null if it is not allowed. `target` is a path with or without a query. */
export function findAllowed(method: string, target: string): Allowed | null {
  const at = target.indexOf("?");
  const path = at < 0 ? target : target.slice(0, at);
  if (at >= 0 && !QUERY.test(target.slice(at + 1))) return null;
  return ALLOWED.find((one) => one.method === method && one.path.test(path)) ?? null;
}
