/** Refusals and failures of the sign-in. */

export type AuthCode =
  /** `/config.json` does not answer. */
  | "config_unreachable"
  /** The issuer does not answer, or answers something else. */
  | "issuer_unreachable"
  /** Nobody is signed in at the issuer, which was asked not to ask. */
  | "login_required"
  /** The callback belongs to no sign-in that this tab began. */
  | "stale_callback"
  /** The issuer refused, or its answer does not belong to this sign-in. */
  | "sign_in_refused"
  /** The session is over; only the issuer can begin another one. */
  | "session_expired";

/** What the reader had written when a sign-in began, by conversation, "" for a new one; of one user, and for no other. */
export interface Kept {
  readonly subject: string;
  readonly drafts: Readonly<Record<string, string>>;
}

export const NOTHING_KEPT: Kept = { subject: "", drafts: {} };

/** `code` is stable; `issuerCode` is the issuer's own word, "" without one. Neither holds a token. */
export class AuthError extends Error {
  override readonly name = "AuthError";
  readonly code: AuthCode;
  readonly issuerCode: string;
  /** Where the page was when the sign-in began, "/" if that is not known. */
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
