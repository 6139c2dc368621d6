import { afterEach, expect, test, vi } from "vitest";
import { ApiError, HttpApi } from "../../src/api/index.ts";

const token = () => Promise.resolve("secret");
const api = new HttpApi("http://127.0.0.1:4566/stage/", token);

function answer(response: () => Response | Promise<Response>): Request[] {
  const asked: Request[] = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    asked.push(new Request(url, init));
    return response();
  });
  return asked;
}

const json =
  (value: unknown, status = 200) =>
  () =>
    new Response(JSON.stringify(value), { status });

async function refusal(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(ApiError);
  return error;
}

afterEach(() => vi.unstubAllGlobals());

test("a call carries a token and its query without omitted values, but no cookie", async () => {
  const asked = answer(json({ items: [], next: "" }));
  expect(await api.listAll({ q: "a b&c", limit: 5 })).toEqual({ items: [], next: "" });
  const [request] = asked;
  expect(request?.url).toBe("http://127.0.0.1:4566/stage/v1/conversations?q=a+b%26c&limit=5");
  expect(request?.headers.get("authorization")).toBe("Bearer secret");
  expect(request?.credentials).toBe("omit");
  expect(request?.redirect).toBe("error");
});

test("a creating call carries its key and its body", async () => {
  const asked = answer(json({ url: "u" }, 201));
  await api.createLink("chat-1", { path: "fi:a.txt", disposition: "download" }, { idempotencyKey: "k" });
  expect(asked[0]?.headers.get("idempotency-key")).toBe("k");
  expect(await asked[0]?.json()).toEqual({ path: "fi:a.txt", disposition: "download" });
});

test("a call accepts an empty answer", async () => {
  answer(() => new Response(null, { status: 204 }));
  expect(await api.markRead("chat-1", { n: 3 })).toBeUndefined();
});

test("a problem response becomes an error with its code", async () => {
  answer(
    json({ title: "T", status: 429, code: "rate_limited", detail: "Later.", retryable: true, retry_after_s: 4 }, 429),
  );
  expect(await refusal(api.listAll())).toMatchObject({
    status: 429,
    code: "rate_limited",
    detail: "Later.",
    retryable: true,
    retryAfterS: 4,
  });
});

test.each([
  [401, 1],
  [403, 0],
  [500, 0],
])("status %i ends the session %i times, for any request", async (status, times) => {
  const ended = vi.fn();
  const asking = new HttpApi("http://127.0.0.1:4566/stage/", token, ended);
  answer(json({ message: "Unauthorized" }, status));
  expect((await refusal(asking.renameConversation("chat-1", { title: "t" }))).status).toBe(status);
  expect(ended).toHaveBeenCalledTimes(times);
});

test("refusals by the gateway itself have a code, too", async () => {
  answer(json({ message: "Forbidden" }, 403));
  expect(await refusal(api.listAll())).toMatchObject({ status: 403, code: "unauthorized", retryable: false });
  answer(() => new Response("<html>", { status: 502 }));
  expect(await refusal(api.listAll())).toMatchObject({ status: 502, code: "gateway", retryable: true });
});

test("a missing answer and one that is not JSON are reported as unreachable", async () => {
  answer(() => Promise.reject(new TypeError("Failed to fetch")));
  expect(await refusal(api.listAll())).toMatchObject({ status: 0, code: "api_unreachable", retryable: true });
  answer(() => new Response("<html>"));
  expect(await refusal(api.listAll())).toMatchObject({ code: "api_unreachable" });
});

test("an aborted call throws the caller's reason", async () => {
  answer(() => Promise.reject(new TypeError("aborted")));
  const reason = new Error("typed on");
  await expect(api.search({ q: "x" }, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});

test("a name that cannot be a path segment sends no request", async () => {
  const asked = answer(json({}));
  for (const name of ["a/b", "..", ""])
    expect(await refusal(api.readConversation(name))).toMatchObject({ code: "bad_path" });
  expect(asked).toEqual([]);
});
