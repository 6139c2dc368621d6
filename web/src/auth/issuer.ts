/**
 * The issuer, discovered by its metadata, and its token endpoint.
 *
 * Source: OpenID Connect Discovery 1.0 §4; RFC 6749 §4.1.3 and §6; RFC 7636.
 */

import type { PageConfig } from "./config.ts";
import { AuthError } from "./error.ts";

export interface Metadata {
  readonly issuer: string;
  readonly authorization_endpoint: string;
  readonly token_endpoint: string;
  readonly end_session_endpoint?: string;
  readonly revocation_endpoint?: string;
  readonly authorization_response_iss_parameter_supported?: boolean;
}

/** The answer of a token endpoint. Secret. */
export interface TokenAnswer {
  readonly id_token?: string;
  readonly access_token?: string;
  readonly expires_in?: number;
  readonly refresh_token?: string;
}

const TIMEOUT_MS = 15_000;

/**
 * Return the issuer's metadata. Throws AuthError `issuer_unreachable`, also if the metadata belongs to another issuer.
 */
export async function discover(config: PageConfig): Promise<Metadata> {
  const found = await ask<Metadata>(`${config.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
  if (found.issuer !== config.issuer || !found.authorization_endpoint || !found.token_endpoint) {
    throw new AuthError("issuer_unreachable");
  }
  return found;
}

/** Exchange a code, or a refresh token. Throws AuthError `sign_in_refused` or `issuer_unreachable`. */
export function exchange(metadata: Metadata, fields: Record<string, string>): Promise<TokenAnswer> {
  return ask<TokenAnswer>(metadata.token_endpoint, fields);
}

/**
 * Revoke a refresh token, if the issuer supports it. A failure to reach the issuer does not keep the user signed in.
 */
export async function revoke(metadata: Metadata, fields: Record<string, string>): Promise<void> {
  if (metadata.revocation_endpoint === undefined) return;
  await send(metadata.revocation_endpoint, fields).catch(() => undefined);
}

async function ask<Answer>(url: string, fields?: Record<string, string>): Promise<Answer> {
  const response = await send(url, fields).catch(() => null);
  if (response === null || response.status >= 500) throw new AuthError("issuer_unreachable");
  const found: unknown = await response.json().catch(() => null);
  if (response.ok && typeof found === "object" && found !== null) return found as Answer;
  if (fields === undefined || response.ok) throw new AuthError("issuer_unreachable");
  throw new AuthError("sign_in_refused", errorOf(found));
}

function send(url: string, fields?: Record<string, string>): Promise<Response> {
  return fetch(url, {
    method: fields === undefined ? "GET" : "POST",
    body: fields === undefined ? null : new URLSearchParams(fields),
    headers: { Accept: "application/json" },
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
}

function errorOf(found: unknown): string {
  return typeof found === "object" && found !== null && "error" in found ? String(found.error) : "";
}
