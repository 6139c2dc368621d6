/**
 * Addresses of the page. Rounds count from 1 in an address, as on the screen; `iteration` counts from 0, as in events.
 */

/** A place in a conversation. */
export interface Place {
  readonly turnId: string;
  readonly iteration: number | null;
  readonly callId: string;
}

export type Route =
  | { readonly is: "new" }
  | { readonly is: "thread"; readonly conversation: string; readonly place: Place | null; readonly file: string }
  | {
      readonly is: "timeline";
      readonly conversation: string;
      readonly turnId: string;
      readonly iteration: number;
      /** `request`, `diff`, `reply`, … */
      readonly view: string;
      /** The other round of a comparison, as `<turn>.<round>`; "" for none. */
      readonly to: string;
    }
  | { readonly is: "search"; readonly query: string }
  | { readonly is: "bundle"; readonly bundle: string }
  | { readonly is: "callback" }
  | { readonly is: "signed-out" };

export const HOME: Route = { is: "new" };

const CONVERSATION = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const TURN = /^turn_[A-Za-z0-9_-]{1,64}$/;
const CALL = /^tc_[A-Za-z0-9_-]{1,64}$/;
const BUNDLE = /^[a-z][a-z0-9_-]{0,31}$/;
const NAME_CHARS = "abcdefghijklmnopqrstuvwxyz0123456789";
const NAME_LENGTH = 20;
/** Larger bytes would make some characters more likely than others. */
const FAIR_BYTES = 256 - (256 % NAME_CHARS.length);

/** Return the route of an address, or null for an unknown one. */
export function parseRoute(path: string, query: string): Route | null {
  const parts = decodeParts(path);
  if (parts === null) return null;
  const asked = new URLSearchParams(query);
  const [first, second] = parts;
  if (first === undefined) return HOME;
  if (first === "c" && second !== undefined && CONVERSATION.test(second)) {
    return parseConversation(second, parts.slice(2), asked);
  }
  if (first === "bundle" && second !== undefined && parts.length === 2 && BUNDLE.test(second)) {
    return { is: "bundle", bundle: second };
  }
  if (parts.length > 1) return null;
  if (first === "search") return { is: "search", query: asked.get("q") ?? "" };
  if (first === "callback" || first === "signed-out") return { is: first };
  return null;
}

function parseConversation(conversation: string, rest: readonly string[], asked: URLSearchParams): Route | null {
  const thread = { is: "thread", conversation, place: null, file: "" } as const;
  const [kind, ...more] = rest;
  if (kind === undefined) return thread;
  if (kind === "f" && more.length > 0) return { ...thread, file: more.join("/") };
  const turnId = more[0] ?? "";
  if (!TURN.test(turnId)) return null;
  if (kind === "timeline" && more.length === 2) {
    const iteration = parseRound(more[1]);
    if (iteration === null) return null;
    const view = asked.get("view") ?? (asked.has("diff") ? "diff" : "request");
    return { is: "timeline", conversation, turnId, iteration, view, to: asked.get("to") ?? "" };
  }
  return kind === "t" ? parsePlace(thread, turnId, more.slice(1)) : null;
}

function parsePlace(thread: Route & { is: "thread" }, turnId: string, rest: readonly string[]): Route | null {
  const place: Place = { turnId, iteration: null, callId: "" };
  const [kind, name, ...more] = rest;
  if (kind === undefined) return { ...thread, place };
  if (kind === "r") {
    const iteration = parseRound(name);
    if (iteration === null) return null;
    return more.length
      ? parseCall(thread, { ...place, iteration }, more)
      : { ...thread, place: { ...place, iteration } };
  }
  return parseCall(thread, place, rest);
}

function parseCall(thread: Route & { is: "thread" }, place: Place, rest: readonly string[]): Route | null {
  const [kind, callId = ""] = rest;
  return kind === "tc" && rest.length === 2 && CALL.test(callId) ? { ...thread, place: { ...place, callId } } : null;
}

function parseRound(text: string | undefined): number | null {
  return text !== undefined && /^[1-9][0-9]{0,5}$/.test(text) ? Number(text) - 1 : null;
}

function decodeParts(path: string): readonly string[] | null {
  try {
    return path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return null;
  }
}

/** Return the address of a route; `parseRoute` reverses it. */
export function formatRoute(route: Route): string {
  switch (route.is) {
    case "new":
      return "/";
    case "thread":
      return `/c/${route.conversation}${formatFile(route.file) || formatPlace(route.place)}`;
    case "timeline": {
      const asked = new URLSearchParams();
      if (route.view !== "request") asked.set("view", route.view);
      if (route.to) asked.set("to", route.to);
      const query = asked.size ? `?${asked}` : "";
      return `/c/${route.conversation}/timeline/${route.turnId}/${route.iteration + 1}${query}`;
    }
    case "search":
      return route.query ? `/search?${new URLSearchParams({ q: route.query })}` : "/search";
    case "bundle":
      return `/bundle/${route.bundle}`;
    case "callback":
    case "signed-out":
      return `/${route.is}`;
  }
}

function formatFile(path: string): string {
  return path && `/f/${path.split("/").map(encodeURIComponent).join("/")}`;
}

function formatPlace(place: Place | null): string {
  if (place === null) return "";
  const round = place.iteration === null ? "" : `/r/${place.iteration + 1}`;
  return `/t/${place.turnId}${round}${place.callId && `/tc/${place.callId}`}`;
}

/** Return the conversation that a route shows, "" if it shows none. */
export function conversationOf(route: Route): string {
  return route.is === "thread" || route.is === "timeline" ? route.conversation : "";
}

/** Return the route of a conversation's thread. */
export function threadOf(conversation: string): Route {
  return { is: "thread", conversation, place: null, file: "" };
}

/** Return the name of a new conversation; `random` fills an array with random bytes. */
export function nameConversation(random: (bytes: Uint8Array<ArrayBuffer>) => void): string {
  let name = "";
  const bytes = new Uint8Array(NAME_LENGTH * 2);
  while (name.length < NAME_LENGTH) {
    random(bytes);
    for (const byte of bytes) {
      if (byte < FAIR_BYTES && name.length < NAME_LENGTH) name += NAME_CHARS[byte % NAME_CHARS.length];
    }
  }
  return `chat-${name}`;
}
