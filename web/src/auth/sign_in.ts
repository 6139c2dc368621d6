/**
 * Sign-in by authorization code with PKCE, at any OpenID Connect issuer.
 *
 * Source: OpenID Connect Core 1.0 §3.1; RFC 7636 (PKCE, S256 alone); RFC 9207 (`iss` in the answer).
 */

import { loadConfig, type PageConfig } from "./config.ts";
import { AuthError, type Kept, NOTHING_KEPT } from "./error.ts";
import { discover, exchange, type Metadata } from "./issuer.ts";
import { type AuthSession, beginSession } from "./session.ts";

/**
 * The data that a tab stores from the redirect until the callback, which deletes it. It holds no token, and text only
 * as drafts.
 */
interface Begun {
  readonly verifier: string;
  readonly state: string;
  readonly nonce: string;
  readonly returnRoute: string;
  readonly kept: Kept;
}

const KEY = "stepline.sign-in";
const CALLBACK = "/callback";

export const SignIn = {
  /**
   * Go to the issuer's sign-in page, which redirects to `/callback`. `kept` drafts return to the same user only.
   *
   * Throws AuthError `issuer_unreachable`.
   */
  signIn: (config: PageConfig, returnRoute: string, kept?: Kept): Promise<never> =>
    leave(config, returnRoute, {}, kept),

  /**
   * Go to the issuer, which answers from its own session without a page. This is how a reload signs in.
   *
   * `finish` throws `login_required` if there is no session. An issuer that does not know `prompt` shows its page.
   */
  resume: (config: PageConfig, returnRoute: string): Promise<never> => leave(config, returnRoute, { prompt: "none" }),

  /**
   * Finish the sign-in at `/callback`: exchange the code, and remove it from the address.
   *
   * Throws AuthError: `login_required`, `stale_callback`, `sign_in_refused`, `issuer_unreachable`,
   * `config_unreachable`.
   */
  async finish(): Promise<{ session: AuthSession; returnRoute: string; drafts: Kept["drafts"] }> {
    const answer = new URLSearchParams(location.search);
    history.replaceState(null, "", CALLBACK);
    const begun = takeBegun();
    if (begun === null || answer.get("state") !== begun.state) throw new AuthError("stale_callback");
    const { returnRoute, kept } = begun;
    try {
      const config = await loadConfig();
      const metadata = await discover(config);
      checkAnswer(answer, metadata);
      const tokens = await exchange(metadata, {
        grant_type: "authorization_code",
        code: answer.get("code") ?? "",
        redirect_uri: `${location.origin}${CALLBACK}`,
        client_id: config.client_id,
        code_verifier: begun.verifier,
      });
      const session = beginSession(config, metadata, tokens, begun.nonce);
      return { session, returnRoute, drafts: kept.subject === session.user.subject ? kept.drafts : {} };
    } catch (error) {
      throw error instanceof AuthError ? new AuthError(error.code, error.issuerCode, returnRoute, kept) : error;
    }
  },
};

async function leave(
  config: PageConfig,
  returnRoute: string,
  more: Record<string, string>,
  given?: Kept,
): Promise<never> {
  const metadata = await discover(config);
  // A sign-in that was abandoned at the issuer has kept drafts, too.
  const kept = given ?? takeBegun()?.kept ?? NOTHING_KEPT;
  const begun: Begun = { verifier: random(), state: random(), nonce: random(), returnRoute, kept };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(begun));
  } catch {
    sessionStorage.setItem(KEY, JSON.stringify({ ...begun, kept: NOTHING_KEPT }));
  }
  const url = new URL(metadata.authorization_endpoint);
  const fields = {
    response_type: "code",
    client_id: config.client_id,
    redirect_uri: `${location.origin}${CALLBACK}`,
    scope: config.scopes.join(" "),
    state: begun.state,
    nonce: begun.nonce,
    code_challenge: await challengeOf(begun.verifier),
    code_challenge_method: "S256",
    ...more,
  };
  for (const [name, value] of Object.entries(fields)) url.searchParams.set(name, value);
  location.assign(url.href);
  return new Promise(() => {}); // the browser is leaving the page
}

function checkAnswer(answer: URLSearchParams, metadata: Metadata): void {
  const from = answer.get("iss");
  const requiresIssuer = metadata.authorization_response_iss_parameter_supported === true;
  if (from === null ? requiresIssuer : from !== metadata.issuer) throw new AuthError("sign_in_refused", "iss");
  const refused = answer.get("error");
  if (refused === null) return;
  const silent = ["login_required", "interaction_required", "consent_required", "account_selection_required"];
  throw new AuthError(silent.includes(refused) ? "login_required" : "sign_in_refused", refused.slice(0, 64));
}

function takeBegun(): Begun | null {
  const kept = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  const begun = kept === null ? null : (JSON.parse(kept) as Begun);
  if (begun === null) return null;
  // A route of this page: `//host` would lead to another site.
  return /^\/(?![/\\])/.test(begun.returnRoute) ? begun : { ...begun, returnRoute: "/" };
}

function random(): string {
  return encode(crypto.getRandomValues(new Uint8Array(32)));
}

async function challengeOf(verifier: string): Promise<string> {
  return encode(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

/** Return bytes in base64url without padding. */
function encode(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
