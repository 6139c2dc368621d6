import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AuthError, type AuthSession, type Kept, SignIn } from "../../src/auth/index.ts";
import { CONFIG, ISSUER, idToken, json, PAGE, ScriptedIssuer } from "./scripted_issuer.ts";

let issuer: ScriptedIssuer;

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000_000_000 });
  issuer = new ScriptedIssuer();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function leave(route = "/c/chat-1", kept?: Kept): Promise<void> {
  const leaving = issuer.leaving();
  void SignIn.signIn(issuer.config, route, kept);
  await leaving;
}

const KEPT: Kept = { subject: "u-1", drafts: { "chat-1": "What I was about to say." } };

/** Return from the issuer as a user, and return the restored drafts. */
async function comeBackAs(subject: string) {
  issuer.comeBack({ code: "c", state: issuer.field("state") });
  issuer.tokens = () => json({ id_token: idToken({ nonce: issuer.field("nonce"), sub: subject }) });
  return (await SignIn.finish()).drafts;
}

/** Sign in; the issuer's token has these claims, and its answer these fields. */
async function signIn(claims: Record<string, unknown> = {}, more: object = {}): Promise<AuthSession> {
  await leave();
  issuer.comeBack({ code: "c", state: issuer.field("state") });
  issuer.tokens = () => json({ id_token: idToken({ nonce: issuer.field("nonce"), ...claims }), ...more });
  return (await SignIn.finish()).session;
}

async function refusal(call: Promise<unknown>): Promise<AuthError> {
  const error = await call.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(AuthError);
  return error;
}

test("a sign-in requests a code with a challenge, and the code exchange sends the verifier", async () => {
  await leave();
  expect(issuer.last.origin + issuer.last.pathname).toBe(`${ISSUER}/authorize`);
  expect(issuer.field("response_type")).toBe("code");
  expect(issuer.field("scope")).toBe("openid email");
  expect(issuer.field("redirect_uri")).toBe(`${PAGE}/callback`);
  expect(issuer.field("code_challenge_method")).toBe("S256");
  issuer.comeBack({ code: "the-code", state: issuer.field("state") });
  issuer.tokens = () => json({ id_token: idToken({ nonce: issuer.field("nonce") }) });
  const { session, returnRoute } = await SignIn.finish();
  expect(returnRoute).toBe("/c/chat-1");
  expect(session.user).toEqual({ name: "Ann", subject: "u-1", role: "user" });
  const [asked] = issuer.asked;
  expect(asked?.get("code")).toBe("the-code");
  const made = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(asked?.get("code_verifier") ?? ""));
  const challenge = btoa(String.fromCharCode(...new Uint8Array(made)))
    .replaceAll("+", "-")
    .replaceAll("/", "_");
  expect(issuer.field("code_challenge")).toBe(challenge.replaceAll("=", ""));
});

test("after the callback, neither the tab nor the address holds data of the sign-in", async () => {
  const session = await signIn();
  expect(issuer.storage.size).toBe(0);
  expect(issuer.address.href).toBe(`${PAGE}/callback`);
  expect(JSON.stringify(session)).not.toContain(await session.token());
});

test("drafts survive the sign-in of the same user, and the callback removes them from the tab", async () => {
  await leave("/", KEPT);
  expect(await comeBackAs("u-1")).toEqual(KEPT.drafts);
  expect(issuer.storage.size).toBe(0);
  expect(await comeBackAs("u-1").catch((error) => error.code)).toBe("stale_callback");
  await leave("/", KEPT);
  expect(await comeBackAs("u-2")).toEqual({});
  expect(issuer.storage.size).toBe(0);
});

test("drafts survive an abandoned sign-in, and one that the issuer refused", async () => {
  await leave("/", KEPT);
  // The user goes back from the issuer's form: the page restarts, and calls the issuer.
  const resuming = issuer.leaving();
  void SignIn.resume(CONFIG, "/");
  await resuming;
  issuer.comeBack({ error: "login_required", state: issuer.field("state") });
  const { kept } = await refusal(SignIn.finish());
  expect(issuer.storage.size).toBe(0);
  await leave("/", kept);
  expect(await comeBackAs("u-1")).toEqual(KEPT.drafts);
});

test("drafts that the tab cannot store do not prevent the sign-in", async () => {
  const { setItem } = sessionStorage;
  sessionStorage.setItem = (key, value) => {
    if (value.includes("about to say")) throw new DOMException("full", "QuotaExceededError");
    setItem(key, value);
  };
  await leave("/", KEPT);
  expect(await comeBackAs("u-1")).toEqual({});
});

test("a session ends when the API refuses its token", async () => {
  const session = await signIn({}, { refresh_token: "r" });
  const over = vi.fn();
  session.onExpired(over);
  session.expire();
  session.expire();
  expect(over).toHaveBeenCalledTimes(1);
  expect(await refusal(session.token())).toMatchObject({ code: "session_expired" });
});

test("a reload requests no sign-in page, and learns that the user is signed out", async () => {
  const leaving = issuer.leaving();
  void SignIn.resume(CONFIG, "/");
  await leaving;
  expect(issuer.field("prompt")).toBe("none");
  issuer.comeBack({ error: "login_required", state: issuer.field("state") });
  expect(await refusal(SignIn.finish())).toMatchObject({ code: "login_required", returnRoute: "/" });
});

test("a callback that this tab did not start exchanges nothing", async () => {
  issuer.comeBack({ code: "c", state: "s" });
  expect(await refusal(SignIn.finish())).toMatchObject({ code: "stale_callback" });
  await leave();
  issuer.comeBack({ code: "c", state: "another" });
  expect(await refusal(SignIn.finish())).toMatchObject({ code: "stale_callback" });
  expect(issuer.asked).toEqual([]);
});

test("a callback is accepted once", async () => {
  await signIn();
  issuer.comeBack({ code: "c", state: issuer.field("state") });
  expect(await refusal(SignIn.finish())).toMatchObject({ code: "stale_callback" });
});

test("an answer of another issuer exchanges nothing", async () => {
  await leave();
  issuer.comeBack({ code: "c", state: issuer.field("state"), iss: "https://other.example" });
  expect(await refusal(SignIn.finish())).toMatchObject({ code: "sign_in_refused", issuerCode: "iss" });
  issuer.metadata = { ...issuer.metadata, authorization_response_iss_parameter_supported: true };
  await leave();
  issuer.comeBack({ code: "c", state: issuer.field("state") });
  expect(await refusal(SignIn.finish())).toMatchObject({ code: "sign_in_refused", issuerCode: "iss" });
  expect(issuer.asked).toEqual([]);
});

test.each([
  ["another sign-in", { nonce: "other" }],
  ["another client", { aud: "other" }],
  ["another issuer", { iss: "https://other.example" }],
  ["no lifetime", { exp: 1000 }],
])("a token of %s is refused", async (_what, claims) => {
  expect(await refusal(signIn(claims))).toMatchObject({ code: "sign_in_refused", returnRoute: "/c/chat-1" });
});

test("metadata of another issuer is rejected", async () => {
  issuer.metadata = { ...issuer.metadata, issuer: "https://other.example" };
  expect(await refusal(SignIn.signIn(CONFIG, "/"))).toMatchObject({ code: "issuer_unreachable" });
  expect(issuer.left).toEqual([]);
});

test("a route that leads to another site is replaced by the start page", async () => {
  await leave("//evil.example");
  issuer.comeBack({ code: "c", state: issuer.field("state") });
  issuer.tokens = () => json({ id_token: idToken({ nonce: issuer.field("nonce") }) });
  expect((await SignIn.finish()).returnRoute).toBe("/");
});

test("if the client is not the audience, the API gets the access token, and its expiry counts", async () => {
  issuer.config = { ...CONFIG, token: "access" };
  const session = await signIn({}, { access_token: "for-the-api", expires_in: 600 });
  expect(await session.token()).toBe("for-the-api");
  expect(session.expiresAtS()).toBe(1_000_000_600);
  expect(await refusal(signIn())).toMatchObject({ code: "sign_in_refused", issuerCode: "no_token" });
});

test("the user has the highest role of any group", async () => {
  expect((await signIn({ "cognito:groups": ["x", "tenant_admin", "project_admin"] })).user.role).toBe("tenant_admin");
});

test("a session with a refresh token is renewed once before it ends, for any number of callers", async () => {
  const session = await signIn({}, { refresh_token: "r1" });
  const first = await session.token();
  vi.advanceTimersByTime(2900_000);
  issuer.tokens = () => json({ id_token: idToken({ iat: 5000, exp: 8600 }), refresh_token: "r2" });
  const renewed = await Promise.all([session.token(), session.token()]);
  expect(renewed[0]).not.toBe(first);
  expect(renewed[1]).toBe(renewed[0]);
  expect(issuer.asked.map((form) => form.get("refresh_token"))).toEqual([null, "r1"]);
  expect(session.expiresAtS()).toBe(1_000_000_000 + 2900 + 3600);
});

test("a renewal keeps the refresh token if the issuer sends none", async () => {
  const session = await signIn({}, { refresh_token: "r1" });
  for (let at = 0; at < 2; at++) {
    vi.advanceTimersByTime(3000_000);
    issuer.tokens = () => json({ id_token: idToken({}) });
    await session.token();
  }
  expect(issuer.asked.at(-1)?.get("refresh_token")).toBe("r1");
});

test("while the issuer does not answer, the token is used until it expires", async () => {
  const session = await signIn({}, { refresh_token: "r1" });
  const expired = vi.fn();
  session.onExpired(expired);
  issuer.tokens = () => new Response("", { status: 503 });
  vi.advanceTimersByTime(3500_000);
  expect(await session.token()).not.toBe("");
  vi.advanceTimersByTime(200_000);
  expect(await refusal(session.token())).toMatchObject({ code: "issuer_unreachable" });
  issuer.tokens = () => json({ id_token: idToken({}) });
  expect(await session.token()).not.toBe("");
  expect(expired).not.toHaveBeenCalled();
});

test("a refused renewal, or one for another user, ends the session", async () => {
  for (const answer of [
    () => json({ error: "invalid_grant" }, 400),
    () => json({ id_token: idToken({ sub: "u-2" }) }),
  ]) {
    const session = await signIn({}, { refresh_token: "r1" });
    const expired = vi.fn();
    session.onExpired(expired);
    vi.advanceTimersByTime(3000_000);
    issuer.tokens = answer;
    expect(await refusal(session.token())).toMatchObject({ code: "session_expired" });
    expect(expired).toHaveBeenCalledOnce();
  }
});

test("a session without a refresh token reports its own end", async () => {
  const session = await signIn();
  const expired = vi.fn();
  session.onExpired(expired);
  vi.advanceTimersByTime(3500_000);
  expect(expired).not.toHaveBeenCalled();
  vi.advanceTimersByTime(100_000);
  expect(expired).toHaveBeenCalledOnce();
  expect(await refusal(session.token())).toMatchObject({ code: "session_expired" });
});

test("a sign-out revokes the refresh token and ends the issuer's session", async () => {
  issuer.metadata = { ...issuer.metadata, revocation_endpoint: `${ISSUER}/revoke` };
  const session = await signIn({}, { refresh_token: "r1" });
  const expired = vi.fn();
  session.onExpired(expired);
  await session.signOut();
  expect(issuer.asked.at(-1)?.get("token")).toBe("r1");
  expect(issuer.last.origin + issuer.last.pathname).toBe(`${ISSUER}/end`);
  expect(issuer.field("post_logout_redirect_uri")).toBe(`${PAGE}/signed-out`);
  expect(expired).not.toHaveBeenCalled();
  expect(await refusal(session.token())).toMatchObject({ code: "session_expired" });
});

test("Cognito signs out with its own parameters, and gets no token in an address", async () => {
  const pool = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_abc";
  issuer.config = { ...CONFIG, issuer: pool };
  issuer.metadata = { ...issuer.metadata, issuer: pool };
  await (await signIn({ iss: pool })).signOut();
  expect(issuer.field("logout_uri")).toBe(`${PAGE}/signed-out`);
  expect(issuer.field("client_id")).toBe("stepline");
  expect(issuer.last.search).not.toContain("id_token");
});

test("a sign-out without an end-session endpoint ends at /signed-out", async () => {
  const { end_session_endpoint: _, ...metadata } = issuer.metadata;
  issuer.metadata = metadata;
  await (await signIn()).signOut();
  expect(issuer.last.href).toBe(`${PAGE}/signed-out`);
});
