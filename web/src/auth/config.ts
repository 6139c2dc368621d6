/** The stage that the page belongs to: where to sign in, and where to ask. */

import { AuthError } from "./error.ts";

/** The document `/config.json`, with the names of its fields as they are in it. It holds no secret. */
export interface PageConfig {
  readonly issuer: string;
  readonly client_id: string;
  readonly scopes: readonly string[];
  readonly http_url: string;
  readonly socket_url: string;
  readonly stage: string;
  /** Whose conversations show what the model saw. */
  readonly inspect: "owner" | "admin" | "none";
  readonly uploads: boolean;
  readonly version: string;
  /** The token that the API takes: the ID token, or the access token where the client is not the audience. */
  readonly token?: "id" | "access";
  /** The bundles that have a page of their own at `/ui/<name>/`. */
  readonly ui?: readonly string[];
  /** What a new conversation on a local stage offers, in place of the start of the tour. */
  readonly suggestions?: readonly string[];
}

/** Return the page's stage. Throws AuthError `config_unreachable`. */
export async function loadConfig(): Promise<PageConfig> {
  const response = await fetch("/config.json", { cache: "no-store", credentials: "omit" }).catch(() => null);
  if (!response?.ok) throw new AuthError("config_unreachable");
  return (await response.json()) as PageConfig;
}
