/** The configuration of the page's stage: where to sign in, and where the API is. */

import { AuthError } from "./error.ts";

/** The document `/config.json`, with its field names unchanged. It holds no secret. */
export interface PageConfig {
  readonly issuer: string;
  readonly client_id: string;
  readonly scopes: readonly string[];
  readonly http_url: string;
  readonly socket_url: string;
  readonly stage: string;
  /** The users whose conversations show what the model read. */
  readonly inspect: "owner" | "admin" | "none";
  readonly uploads: boolean;
  readonly version: string;
  /** The token that the API accepts: the ID token, or the access token where the client is not the audience. */
  readonly token?: "id" | "access";
  /** The bundles that have their own page at `/ui/<name>/`. */
  readonly ui?: readonly string[];
  /** Suggestions for a new conversation on a local stage, which replace the first ones of the tour. */
  readonly suggestions?: readonly string[];
}

/** Return the configuration of the page's stage. Throws AuthError `config_unreachable`. */
export async function loadConfig(): Promise<PageConfig> {
  const response = await fetch("/config.json", { cache: "no-store", credentials: "omit" }).catch(() => null);
  if (!response?.ok) throw new AuthError("config_unreachable");
  return (await response.json()) as PageConfig;
}
