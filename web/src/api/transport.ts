/**
 * The transport of the HTTP API client: sends one request with a fresh token, and decodes its answer or throws its
 * refusal.
 *
 * It sends nothing twice, follows no redirects, and sends no cookies.
 */

import { wellFormed } from "../client/index.ts";
import type { Problem } from "./types.ts";

const TIMEOUT_MS = 30_000;

/** Options of a call besides its values. */
export interface Call {
  readonly signal?: AbortSignal;
}

/** For a call that creates something: the same key again returns what the first request created. */
export interface KeyedCall extends Call {
  readonly idempotencyKey?: string;
}

interface Values extends KeyedCall {
  readonly query?: object;
  readonly body?: object;
}

/**
 * A refusal: `code` is stable, `detail` is a sentence for people.
 *
 * Status 0 means no answer at all, with the code `api_unreachable`. A refusal by the gateway itself has the code
 * `unauthorized` or `gateway`, one by the upload bucket `form_refused`.
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly retryable: boolean;
  readonly retryAfterS: number;

  constructor(problem: Pick<Problem, "status" | "code" | "detail"> & Partial<Problem>) {
    super(problem.detail);
    this.status = problem.status;
    this.code = problem.code;
    this.detail = problem.detail;
    this.retryable = problem.retryable ?? [0, 429, 502, 503, 504].includes(problem.status);
    this.retryAfterS = problem.retry_after_s ?? 0;
  }
}

/** Calls one HTTP API as one user. */
export class ApiTransport {
  readonly #baseUrl: string;
  readonly #token: () => Promise<string>;
  readonly #signedOut: () => void;

  /** `token` is called for each request, since tokens expire; `signedOut` is called when the API refuses one. */
  constructor(baseUrl: string, token: () => Promise<string>, signedOut: () => void = () => undefined) {
    this.#baseUrl = baseUrl.replace(/\/+$/, "");
    this.#token = token;
    this.#signedOut = signedOut;
  }

  /** Return the answer of an endpoint. Throws ApiError, or the reason of the call's signal. */
  protected async ask<Answer>(method: string, path: string, values: Values): Promise<Answer> {
    const response = await this.#exchange(method, path, values);
    try {
      return (await response.json()) as Answer;
    } catch {
      values.signal?.throwIfAborted();
      throw unreachable();
    }
  }

  /** Call an endpoint whose answer is empty. Throws like `ask`. */
  protected async tell(method: string, path: string, values: Values): Promise<void> {
    await this.#exchange(method, path, values);
  }

  async #exchange(method: string, path: string, { query, body, idempotencyKey, signal }: Values): Promise<Response> {
    const headers = new Headers({ Authorization: `Bearer ${await this.#token()}`, Accept: "application/json" });
    if (idempotencyKey) headers.set("Idempotency-Key", idempotencyKey);
    if (body !== undefined) headers.set("Content-Type", "application/json");
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const request: RequestInit = {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(wellFormed(body)),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    };
    const response = await fetch(`${this.#baseUrl}${path}${encodeQuery(query)}`, request).catch(() => {
      signal?.throwIfAborted();
      throw unreachable();
    });
    if (response.status === 401) this.#signedOut();
    if (!response.ok) throw new ApiError(await readProblem(response));
    return response;
  }
}

/**
 * Return a name as one segment of a path. Throws ApiError `bad_path` if that is impossible: the gateway decodes
 * slashes.
 */
export function part(text: string): string {
  if (text === "" || text === "." || text === ".." || /[/?]/.test(text)) {
    throw new ApiError({ status: 400, code: "bad_path", detail: "This is no part of a path." });
  }
  return encodeURIComponent(text);
}

/** Return a query with its `?`, or "" if it has no values. */
function encodeQuery(query: object = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? "" : `?${text}`;
}

async function readProblem(response: Response): Promise<ConstructorParameters<typeof ApiError>[0]> {
  const found: unknown = await response.json().catch(() => null);
  if (isProblem(found)) return { ...found, status: response.status };
  const code = response.status === 401 || response.status === 403 ? "unauthorized" : "gateway";
  return { status: response.status, code, detail: `The gateway answered ${response.status}.` };
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "detail" in value;
}

function unreachable(): ApiError {
  return new ApiError({ status: 0, code: "api_unreachable", detail: "The API does not answer." });
}
