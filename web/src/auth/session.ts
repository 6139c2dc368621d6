/**
 * A signed-in session. Its tokens live only in private fields of this module.
 *
 * The API accepts the ID token: it names the client as its audience at every issuer, and at Cognito only it has the
 * claims of tenant and project. Where the API is a separate audience, it accepts the access token.
 */

import { readClaims, type User } from "./claims.ts";
import type { PageConfig } from "./config.ts";
import { AuthError } from "./error.ts";
import { exchange, type Metadata, revoke, type TokenAnswer } from "./issuer.ts";

export interface AuthSession {
  readonly user: User;
  /** The time, by this machine's clock, until which `token` answers without the issuer. */
  expiresAtS(): number;
  /** Return a token for the API, renewed if it is about to expire. Throws AuthError. */
  token(): Promise<string>;
  /** End the session because the API refuses the token. */
  expire(): void;
  /** Forget the tokens, end the issuer's own session, and go to `/signed-out`. */
  signOut(): Promise<void>;
  /** Run a function once the session is over without a sign-out; at once if it already is. */
  onExpired(run: () => void): void;
}

/**
 * A token is renewed when less than this share of its lifetime is left. The socket's credential is renewed at the same
 * time.
 */
const RENEW_PART = 0.2;
/** A token that expires sooner is not returned: it must still be valid when the request arrives. */
const SPARE_S = 5;
/** Browsers store a timer's delay in 31 bits. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Return the session for a token endpoint's answer. Throws AuthError `sign_in_refused`. */
export function beginSession(config: PageConfig, metadata: Metadata, answer: TokenAnswer, nonce: string): AuthSession {
  const held = hold(config, answer);
  if (held.nonce !== nonce) throw new AuthError("sign_in_refused", "nonce");
  return new Session(config, metadata, held);
}

class Session implements AuthSession {
  readonly user: User;
  readonly #config: PageConfig;
  readonly #metadata: Metadata;
  #held: Held;
  #over = false;
  #renewal: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #listeners: (() => void)[] = [];

  constructor(config: PageConfig, metadata: Metadata, held: Held) {
    this.user = held.user;
    this.#config = config;
    this.#metadata = metadata;
    this.#held = held;
    this.#watch();
  }

  expiresAtS(): number {
    return this.#held.expiresAtS;
  }

  async token(): Promise<string> {
    const leftS = this.#leftS();
    if (this.#held.refreshToken !== "" && leftS < this.#held.lifetimeS * RENEW_PART) {
      this.#renewal ??= this.#renew().finally(() => {
        this.#renewal = null;
      });
      // The issuer may answer later; until then the current token is still valid for a while.
      await this.#renewal.catch((error: unknown) => {
        if (leftS < SPARE_S) throw error;
      });
    }
    if (this.#leftS() < SPARE_S) this.expire();
    if (this.#over) throw new AuthError("session_expired");
    return this.#held.token;
  }

  expire(): void {
    if (this.#over) return;
    this.#forget();
    for (const run of this.#listeners.splice(0)) run();
  }

  async signOut(): Promise<void> {
    const { idToken, refreshToken } = this.#held;
    this.#forget();
    if (refreshToken !== "") {
      await revoke(this.#metadata, { token: refreshToken, client_id: this.#config.client_id });
    }
    location.assign(endAddress(this.#config, this.#metadata, idToken));
  }

  onExpired(run: () => void): void {
    if (this.#over) run();
    else this.#listeners.push(run);
  }

  async #renew(): Promise<void> {
    const given = this.#held.refreshToken;
    const fields = { grant_type: "refresh_token", refresh_token: given, client_id: this.#config.client_id };
    try {
      // An issuer that does not rotate refresh tokens sends none here.
      const fresh = hold(this.#config, { refresh_token: given, ...(await exchange(this.#metadata, fields)) });
      if (fresh.user.subject !== this.user.subject) throw new AuthError("sign_in_refused", "subject");
      if (this.#over) return;
      this.#held = fresh;
      this.#watch();
    } catch (error) {
      if (!(error instanceof AuthError && error.code === "sign_in_refused")) throw error;
      this.expire();
    }
  }

  /** Report the end of a session that cannot be renewed. With a refresh token, the next request renews it. */
  #watch(): void {
    clearTimeout(this.#timer);
    if (this.#held.refreshToken !== "") return;
    const leftMs = Math.max(0, (this.#leftS() - SPARE_S) * 1000);
    const run = leftMs > TIMER_MAX_MS ? () => this.#watch() : () => this.expire();
    this.#timer = setTimeout(run, Math.min(leftMs, TIMER_MAX_MS));
  }

  #forget(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#held = { ...this.#held, idToken: "", token: "", refreshToken: "" };
  }

  #leftS(): number {
    return this.#held.expiresAtS - Date.now() / 1000;
  }
}

/** The address at which the issuer ends its own session, or `/signed-out` if it has none. */
function endAddress(config: PageConfig, metadata: Metadata, idToken: string): string {
  const signedOut = `${location.origin}/signed-out`;
  if (metadata.end_session_endpoint === undefined) return signedOut;
  const url = new URL(metadata.end_session_endpoint);
  const fields = {
    client_id: config.client_id,
    post_logout_redirect_uri: signedOut,
    // Cognito has its own parameter name and ignores the hint. Source: docs.aws.amazon.com/cognito, "The managed logout
    // endpoint".
    ...(isCognito(config) ? { logout_uri: signedOut } : { id_token_hint: idToken }),
  };
  for (const [name, value] of Object.entries(fields)) url.searchParams.set(name, value);
  return url.href;
}

function isCognito(config: PageConfig): boolean {
  return new URL(config.issuer).hostname.startsWith("cognito-idp.");
}

interface Held {
  readonly user: User;
  readonly nonce: string;
  readonly idToken: string;
  /** The token that the API accepts. */
  readonly token: string;
  readonly refreshToken: string;
  readonly lifetimeS: number;
  readonly expiresAtS: number;
}

function hold(config: PageConfig, answer: TokenAnswer): Held {
  const { id_token: idToken = "", access_token: accessToken = "", refresh_token: refreshToken = "" } = answer;
  const claims = readClaims(idToken, config);
  const byAccess = config.token === "access";
  if (byAccess && accessToken === "") throw new AuthError("sign_in_refused", "no_token");
  const token = byAccess ? accessToken : idToken;
  const lifetimeS = byAccess ? (answer.expires_in ?? claims.lifetimeS) : claims.lifetimeS;
  // Counted from now by this machine's clock, which may differ from the issuer's.
  const expiresAtS = Date.now() / 1000 + lifetimeS;
  return { user: claims.user, nonce: claims.nonce, idToken, token, refreshToken, lifetimeS, expiresAtS };
}
