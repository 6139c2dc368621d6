/** Refusals and failures of the sign-in. */

export type AuthCode =
  /** `/config.json` does not answer. */
  | "config_unreachable"
  /** The issuer does not answer, or its answer is unusable. */
  | "issuer_unreachable"
  /** The issuer has no session for this browser, and was asked to show no sign-in page. */
  | "login_required"
  /** The callback does not belong to a sign-in that this tab started. */
  | "stale_callback"
  /** The issuer refused, or its answer does not belong to this sign-in. */
  | "sign_in_refused"
  /** The session is over; only the issuer can start another one. */
  | "session_expired";

/**
 * The user's drafts when a sign-in began, by conversation, "" for a new one. They belong to one user and are shown to
 * no other.
 */
export interface Kept {
  readonly subject: string;
  readonly drafts: Readonly<Record<string, string>>;
}

export const NOTHING_KEPT: Kept = { subject: "", drafts: {} };

/** `code` is stable; `issuerCode` is the issuer's own code, "" without one. Neither holds a token. */
export class AuthError extends Error {
  override readonly name = "AuthError";
  readonly code: AuthCode;
  readonly issuerCode: string;
  /** The page's address when the sign-in began, "/" if unknown. */
  readonly returnRoute: string;
  readonly kept: Kept;

  constructor(code: AuthCode, issuerCode = "", returnRoute = "/", kept = NOTHING_KEPT) {
    super(issuerCode === "" ? code : `${code}: ${issuerCode}`);
    this.code = code;
    this.issuerCode = issuerCode;
    this.returnRoute = returnRoute;
    this.kept = kept;
  }
}
