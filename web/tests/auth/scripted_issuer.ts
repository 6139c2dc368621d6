/** A scripted issuer: it answers fetch, and the page's address and storage are plain objects. */

import { vi } from "vitest";
import type { PageConfig } from "../../src/auth/index.ts";

export const ISSUER = "https://issuer.example";
export const PAGE = "https://chat.example";
export const CONFIG: PageConfig = {
  issuer: ISSUER,
  client_id: "stepline",
  scopes: ["openid", "email"],
  http_url: "https://api.example",
  socket_url: "wss://socket.example",
  stage: "dev",
  inspect: "owner",
  uploads: true,
  version: "1",
};

type Claims = Record<string, unknown>;

export function idToken(claims: Claims): string {
  const part = (value: unknown) =>
    btoa(JSON.stringify(value)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const given = { iss: ISSUER, aud: "stepline", sub: "u-1", name: "Ann", iat: 1000, exp: 4600, ...claims };
  return `${part({ alg: "RS256" })}.${part(given)}.sig`;
}

export class ScriptedIssuer {
  /** The answer to the next request to the token endpoint. */
  tokens: () => Response = () => json({ error: "invalid_grant" }, 400);
  config: PageConfig = CONFIG;
  metadata: Record<string, unknown> = {
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}/authorize`,
    token_endpoint: `${ISSUER}/token`,
    end_session_endpoint: `${ISSUER}/end`,
  };
  /** The forms that the token and revocation endpoints received. */
  readonly asked: URLSearchParams[] = [];
  /** The addresses that the page navigated to, the newest last. */
  readonly left: URL[] = [];
  readonly storage = new Map<string, string>();
  address = new URL(PAGE);
  readonly #waiting: (() => void)[] = [];

  constructor() {
    const issuer = this;
    vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => issuer.#answer(url, init));
    vi.stubGlobal("sessionStorage", {
      getItem: (key: string) => issuer.storage.get(key) ?? null,
      setItem: (key: string, value: string) => issuer.storage.set(key, value),
      removeItem: (key: string) => issuer.storage.delete(key),
    });
    vi.stubGlobal("history", {
      replaceState: (_state: unknown, _title: string, path: string) => {
        issuer.address = new URL(path, PAGE);
      },
    });
    vi.stubGlobal("location", {
      origin: PAGE,
      get search() {
        return issuer.address.search;
      },
      assign: (url: string) => {
        issuer.left.push(new URL(url));
        for (const run of issuer.#waiting.splice(0)) run();
      },
    });
  }

  /** Resolve when the page navigates next. */
  leaving(): Promise<void> {
    return new Promise((run) => this.#waiting.push(run));
  }

  /** Redirect the page back from the issuer with these fields. */
  comeBack(fields: Record<string, string>): void {
    this.address = new URL(`${PAGE}/callback?${new URLSearchParams(fields)}`);
  }

  /** The address that the page last navigated to. */
  get last(): URL {
    const url = this.left.at(-1);
    if (url === undefined) throw new Error("the page has not left");
    return url;
  }

  /** Return a field of the page's last sign-in request. */
  field(name: string): string {
    return this.last.searchParams.get(name) ?? "";
  }

  #answer(url: string, init?: RequestInit): Response {
    if (url === "/config.json") return json(this.config);
    if (url === `${this.config.issuer}/.well-known/openid-configuration`) return json(this.metadata);
    this.asked.push(init?.body as URLSearchParams);
    return this.tokens();
  }
}

export function json(value: unknown, status = 200): Response {
  return new Response(JSON.stringify(value), { status });
}
