/** Clients of the published MCP package at a server of doors, in both eras of the protocol. */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { type Served, TOKEN } from "./served.ts";

export const TASKS = "io.modelcontextprotocol/tasks";
export const ERAS = ["2026-07-28", "2025-11-25"] as const;
export type Revision = (typeof ERAS)[number];

/** Connect a client, which declares no tasks: the package has no client of them. */
export async function connect(served: Served, revision: Revision, token = ""): Promise<Client> {
  const isModern = revision === "2026-07-28";
  const client = new Client(
    { name: "tests", version: "0" },
    {
      versionNegotiation: { mode: isModern ? { pin: revision } : "legacy" },
    },
  );
  const options = {
    fetch: served.network,
    requestInit: { headers: token ? { Authorization: `Bearer ${token}` } : TOKEN },
  };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${served.url}/mcp`), options));
  return client;
}

/** Return a token that names its application. */
export function tokenOf(claims: object): string {
  return `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.s`;
}

/** Return the texts of a result, without the last one, which has the names. */
export function textOf({ content }: { content?: unknown }): string {
  const texts = (content as { type: string; text: string }[]).filter(({ type }) => type === "text");
  return texts
    .slice(0, -1)
    .map(({ text }) => text)
    .join("");
}

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "tests", version: "0" },
};

/** Post a message as it is, and return the status and the last message of the answer. */
export async function post(
  served: Served,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
  query = "",
): Promise<readonly [status: number, message: Record<string, unknown>]> {
  const accepted = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await served.fetch(`/mcp${query}`, {
    method: "POST",
    body: text,
    headers: { ...accepted, ...headers },
  });
  const answer = await response.text();
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
  return [
    response.status,
    JSON.parse(isStream ? ((answer.match(/^data: (.*)$/gm) ?? []).at(-1)?.slice(6) ?? "") : answer),
  ];
}

/** Send a request of 2026-07-28 from a client that declares tasks, and return its result or its error. */
export async function modern(
  served: Served,
  method: string,
  params: Record<string, unknown>,
  capabilities?: object,
  { query = "", token = "" } = {},
) {
  const declared = { "io.modelcontextprotocol/clientCapabilities": capabilities ?? { extensions: { [TASKS]: {} } } };
  const headers: Record<string, string> = { "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method };
  const name = params.name ?? params.taskId;
  if (name) headers["Mcp-Name"] = String(name);
  if (token) headers.Authorization = `Bearer ${token}`;
  const body = { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: { ...META, ...declared } } };
  const [, { result, error }] = await post(served, body, headers, query);
  return (result ?? error) as Record<string, unknown>;
}
