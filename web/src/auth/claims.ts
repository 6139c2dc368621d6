/**
 * The claims of an ID token that comes directly from the token endpoint.
 *
 * The page requested it from the issuer over its own connection, so the signature is not checked here (OpenID Connect
 * Core 1.0 §3.1.3.7, rule 6); the API checks it with every request.
 */

import type { PageConfig } from "./config.ts";
import { AuthError } from "./error.ts";

export interface User {
  readonly name: string;
  readonly subject: string;
  readonly role: string;
}

export interface Claims {
  readonly user: User;
  readonly nonce: string;
  readonly lifetimeS: number;
}

/** Groups that mean a role, the highest last. The server decides; here they only show or hide controls. */
const ROLES = ["project_admin", "tenant_admin"];
const GROUPS = "cognito:groups";
const NAMES = ["name", "preferred_username", "email", "cognito:username"];

/** Return the claims that the page uses. Throws AuthError `sign_in_refused` if the ID token is not for this client. */
export function readClaims(token: string, config: PageConfig): Claims {
  const found = decode(token);
  const { iss, aud, sub, iat, exp, nonce } = found;
  const audiences = Array.isArray(aud) ? aud : [aud];
  if (iss !== config.issuer || !audiences.includes(config.client_id) || typeof sub !== "string") {
    throw new AuthError("sign_in_refused", "foreign_token");
  }
  if (typeof iat !== "number" || typeof exp !== "number" || exp <= iat) {
    throw new AuthError("sign_in_refused", "no_lifetime");
  }
  const groups = found[GROUPS];
  const role = ROLES.filter((name) => Array.isArray(groups) && groups.includes(name)).at(-1) ?? "user";
  const names = NAMES.map((name) => found[name]).filter((name) => typeof name === "string" && name !== "");
  return {
    user: { name: String(names[0] ?? sub), subject: sub, role },
    nonce: typeof nonce === "string" ? nonce : "",
    lifetimeS: exp - iat,
  };
}

function decode(token: string): Record<string, unknown> {
  try {
    const text = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new AuthError("sign_in_refused", "no_token");
  }
}
