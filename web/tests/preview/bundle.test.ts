// @vitest-environment happy-dom
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { h, render } from "preact";
import { afterEach, describe, expect, it, vi } from "vitest";
import { findAllowed } from "../../src/preview/bundle_calls.ts";
import { BundleFrame } from "../../src/preview/index.ts";

/** Endpoints that a bundle's page does not reach. */
const WITHHELD = new Set([
  "GET /v1/openapi.json",
  "POST /v1/socket-tickets",
  "PUT /v1/conversations/{conversation}/turns/{turn}/machine-feedback",
  "POST /v1/conversations/{conversation}/uploads",
  "GET /v1/conversations/{conversation}/uploads/{upload}",
  "POST /v1/conversations/{conversation}/file-links",
  "POST /v1/conversations/{conversation}/import",
  "POST /v1/conversations/{conversation}/forks",
  // Replays spend the user's budget.
  "POST /v1/conversations/{conversation}/replays",
  "GET /v1/conversations/{conversation}/replays",
  "GET /v1/conversations/{conversation}/replays/{replay}",
  // Its frames are those of the page's own connection.
  "GET /v1/conversations/{conversation}/stream",
  "HEAD /v1/conversations/{conversation}/stream",
  // Limits are for admins; deleting and exporting everything are for people.
  "DELETE /v1/conversations/{conversation}",
  "GET /v1/conversations/{conversation}/erasure",
  "GET /v1/limits",
  "GET /v1/me/erasure",
  "GET /v1/me/export",
  "POST /v1/me/erasure",
  "GET /v1/tenants/{tenant}/limits",
  "PUT /v1/tenants/{tenant}/limits",
  "GET /v1/tenants/{tenant}/projects/{project}/limits",
  "PUT /v1/tenants/{tenant}/projects/{project}/limits",
  "GET /v1/tenants/{tenant}/projects/{project}/users/{user+}/limits",
  "PUT /v1/tenants/{tenant}/projects/{project}/users/{user+}/limits",
  "POST /v1/tenants/{tenant}/projects/{project}/users/{user+}/erasure",
  "GET /v1/tenants/{tenant}/projects/{project}/users/{user+}/erasure",
]);
const EXAMPLES: Readonly<Record<string, string>> = { conversation: "chat-1", turn: "turn_1", n: "12", upload: "up_1" };

function endpoints(): string[] {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/http-api.md"), "utf8");
  return Array.from(page.matchAll(/^\| `([A-Z]+ \/[^`]*)`/gm), (found) => found[1] ?? "");
}

describe("the calls of a bundle's page", () => {
  it("are decided for every endpoint of version 1", () => {
    const known = endpoints().filter((endpoint) => endpoint.includes(" /v1/"));
    expect(known.length).toBeGreaterThan(20);
    const allowed = known.filter((endpoint) => {
      const [method = "", path = ""] = endpoint.split(" ");
      return (
        findAllowed(
          method,
          path.replace(/\{(\w+)\}/g, (_, name: string) => EXAMPLES[name] ?? "?"),
        ) !== null
      );
    });
    expect(new Set(known.filter((endpoint) => !allowed.includes(endpoint)))).toEqual(WITHHELD);
  });

  it("reach no endpoint with another spelling", () => {
    for (const endpoint of endpoints().filter((one) => !one.includes(" /v1/"))) {
      const [method = "", path = ""] = endpoint.split(" ");
      expect(findAllowed(method, path.replace(/\{[^}]*\}/g, "x"))).toBeNull();
    }
  });

  it.each([
    ["get", "/v1/conversations"],
    ["GET", "/v1/conversations/"],
    ["GET", "//evil.example/v1/conversations"],
    ["GET", "https://evil.example/v1/conversations"],
    ["GET", "/v1/conversations/../socket-tickets"],
    ["GET", "/v1/conversations/a%2F..%2F..%2Fsocket-tickets"],
    ["GET", "/v1/conversations\n"],
    ["GET", "/v1/conversations#x"],
    ["GET", "/v1/conversations?a=/../x"],
    ["GET", "/v1/conversations/a/events?x=\r\nHost: evil"],
    ["POST", "/v1/socket-tickets"],
  ])("do not include %s %j", (method, path) => {
    expect(findAllowed(method, path)).toBeNull();
  });

  it("may have a query", () => {
    expect(findAllowed("GET", "/v1/search?q=a%20b&limit=5")).not.toBeNull();
  });
});

describe("the frame of a bundle's page", () => {
  const roots: HTMLElement[] = [];

  afterEach(() => {
    for (const root of roots.splice(0)) render(null, root);
    vi.unstubAllGlobals();
  });

  /** Open a bundle's page, and return its port and its requests. */
  function open(answer: Response) {
    const requests: Request[] = [];
    vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
      requests.push(new Request(url, { ...init, signal: null }));
      return answer.clone();
    });
    const root = document.createElement("div");
    roots.push(root);
    render(h(BundleFrame, { bundle: "sales", httpUrl: "https://api.example", token: async () => "secret" }), root);
    const frame = root.querySelector("iframe") as HTMLIFrameElement;
    const ports: MessagePort[] = [];
    const window = { postMessage: (_data: unknown, _origin: string, moved: MessagePort[]) => ports.push(...moved) };
    Object.defineProperty(frame, "contentWindow", { value: window });
    frame.dispatchEvent(new Event("load"));
    return { frame, port: ports[0] as MessagePort, ports, requests };
  }

  function ask(port: MessagePort, question: unknown): Promise<Record<string, unknown>> {
    return new Promise((resolve) => {
      port.onmessage = ({ data }) => resolve(data);
      port.postMessage(question);
    });
  }

  it("has no origin and its own address", () => {
    const { frame } = open(new Response("{}"));
    expect(frame.getAttribute("sandbox")).toBe("allow-scripts");
    expect(frame.getAttribute("src")).toBe("/ui/sales/index.html");
  });

  it("answers an allowed call with the user's rights, without the token", async () => {
    const { port, requests } = open(new Response('{"items": [1]}'));
    const reply = await ask(port, { id: 7, method: "GET", path: "/v1/conversations?limit=1" });
    expect(reply).toEqual({ id: 7, status: 200, body: { items: [1] } });
    expect(requests[0]?.url).toBe("https://api.example/v1/conversations?limit=1");
    expect(requests[0]?.headers.get("Authorization")).toBe("Bearer secret");
    expect(JSON.stringify(reply)).not.toContain("secret");
  });

  it("refuses any other call, and sends no request", async () => {
    const { port, requests } = open(new Response("{}"));
    const reply = await ask(port, { id: 1, method: "POST", path: "/v1/socket-tickets" });
    expect(reply).toMatchObject({ id: 1, status: 403, body: { code: "not_allowed" } });
    expect(requests).toHaveLength(0);
  });

  it("returns a refusal of the API by its code", async () => {
    const problem = { status: 404, code: "not_found", detail: "No." };
    const { port } = open(new Response(JSON.stringify(problem), { status: 404 }));
    const reply = await ask(port, { id: 2, method: "GET", path: "/v1/conversations/chat-1" });
    expect(reply).toEqual({ id: 2, status: 404, body: { code: "not_found", detail: "No." } });
  });

  it("gives a port once, so a page that it navigates to gets none", () => {
    const { frame, ports } = open(new Response("{}"));
    frame.dispatchEvent(new Event("load"));
    expect(ports).toHaveLength(1);
  });

  it("is missing for a name that is not a bundle's", () => {
    const root = document.createElement("div");
    render(h(BundleFrame, { bundle: "../x", httpUrl: "", token: async () => "" }), root);
    expect(root.querySelector("iframe")).toBeNull();
  });
});
