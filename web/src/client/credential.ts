/** Renews an open connection before its token expires. */

import type { Clock } from "./clock.ts";
import type { Pace } from "./pace.ts";

/** The user's token. `expiresAtS` returns its expiry in epoch seconds, or infinity if that is unknown. */
export interface Credential {
  expiresAtS(): number;
  /** Fetch a ticket for a fresh token. Rejecting is fine: the server reports the expiry later. */
  ticket(): Promise<string>;
}

/** Return a token's expiry in epoch seconds, or infinity if it is unreadable. The server checks it anyway. */
export function readExpiry(token: string): number {
  try {
    const claims: unknown = JSON.parse(decodeBase64Url(token.split(".")[1] ?? ""));
    const expiry = (claims as { exp?: unknown }).exp;
    return typeof expiry === "number" ? expiry : Number.POSITIVE_INFINITY;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Schedules the renewals of one connection after another. */
export class Renewal {
  /** True while the server has not answered. */
  isAsked = false;
  dueMs = Number.POSITIVE_INFINITY;
  readonly #credential: Credential;
  readonly #clock: Clock;
  readonly #pace: Pace;
  #connection = 0;

  constructor(credential: Credential, clock: Clock, pace: Pace) {
    this.#credential = credential;
    this.#clock = clock;
    this.#pace = pace;
  }

  /** Start on a new connection. */
  begin(): void {
    this.#connection += 1;
    this.plan(this.#credential.expiresAtS());
  }

  /**
   * Plan the next renewal, for a token that expires at `expiresAtS`. A wrong clock must not cause renewals without a
   * pause.
   */
  plan(expiresAtS: number): void {
    this.isAsked = false;
    const nowMs = this.#clock.nowMs();
    const leftMs = expiresAtS * 1000 - nowMs;
    this.dueMs = nowMs + Math.max(this.#pace.renewAfter * leftMs, this.#pace.answerS * 1000);
  }

  /**
   * Get a ticket and send it, unless the connection has changed by then. If no answer arrives, it is requested again.
   */
  renew(send: (ticket: string) => void): void {
    this.dueMs = this.#clock.nowMs() + this.#pace.answerS * 1000;
    const connection = this.#connection;
    this.#credential.ticket().then(
      (ticket) => {
        if (connection !== this.#connection) return;
        this.isAsked = true;
        send(ticket);
      },
      () => undefined, // requested again when it is due
    );
  }
}

const BASE64_URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Decode base64url, one byte a character. This is enough for JSON when only its numbers are read. */
function decodeBase64Url(text: string): string {
  let bits = 0;
  let held = 0;
  let decoded = "";
  for (const letter of text) {
    const value = BASE64_URL.indexOf(letter);
    if (value < 0) throw new SyntaxError("no base64url");
    held = ((held << 6) | value) & 0xffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    decoded += String.fromCharCode((held >> bits) & 0xff);
  }
  return decoded;
}
