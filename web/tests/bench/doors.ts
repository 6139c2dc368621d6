/**
 * Reads one turn of a websocket by our own client, or at a door, as often as it is asked: `bench/doors.py` serves the
 * turn, writes a reader's name on a line, and receives the CPU time and what the reader got. This process also serves the
 * doors; it is their client that writes `begin` and `end`, and receives the CPU time between.
 */

import process from "node:process";
import { createInterface } from "node:readline";
import { agUi } from "../../packages/ag-ui/mapping.ts";
import { AI_SDK } from "../../packages/ai-sdk/mapping.ts";
import { DoorServer } from "../../packages/serve/server.ts";
import { credentialOf, dialBrowser } from "../../src/api/dial.ts";
import { type Effect, emptyState, Session } from "../../src/client/index.ts";
import { follow } from "../../src/door/turn_parts.ts";
import { type Door, type Line, streamTurn } from "../../src/door/turn_stream.ts";

const [url = "", conversation = "", turn = "", stage = ""] = process.argv.slice(2);
const api = { makeTicket: async () => ({ ticket: "t", url, expires_in_s: 60 }) };
const line: Line = {
  dial: dialBrowser(api, url),
  credential: credentialOf(api, () => Number.POSITIVE_INFINITY),
  clock: {
    nowMs: () => Date.now(),
    after(ms, run) {
      const timer = setTimeout(run, ms);
      return () => clearTimeout(timer);
    },
  },
  bundle: "",
  timezone: "UTC",
};

/** A piece of text, in the form of our own client or of a door. */
interface Piece {
  readonly kind?: string;
  readonly type?: string;
  readonly text?: string;
  readonly delta?: string;
}

const PIECES = new Set(["textAppended", "text-delta", "TEXT_MESSAGE_CONTENT"]);

const READERS: Readonly<Record<string, () => Promise<readonly object[]>>> = {
  client: readOurs,
  ai_sdk: () => readDoor(AI_SDK),
  ag_ui: () => readDoor(agUi(conversation, "run", [])),
};

function readOurs(): Promise<readonly object[]> {
  return new Promise((resolve, reject) => {
    const received: Effect[] = [];
    const session = new Session({
      ...line,
      state: emptyState(conversation),
      onEffects(effects) {
        received.push(...effects);
        if (!effects.some(({ kind }) => kind === "turnEnded")) return;
        session.close();
        resolve(received);
      },
      onLink: () => undefined,
      onFailure: ({ code }) => reject(new Error(code)),
    });
    session.start();
    session.listen();
  });
}

async function readDoor<Value extends object, State>(door: Door<Value, State>): Promise<readonly object[]> {
  const received: object[] = [];
  const stream = streamTurn(line, door, { state: emptyState(conversation), cursor: follow({ turn }) });
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) received.push(next.value);
  return received;
}

const server = new DoorServer({
  url: stage,
  host: "127.0.0.1",
  port: 0,
  streams: 8,
  origins: [],
  beatS: 600,
  unreadS: 600,
  issuer: "",
  mcpAnswers: [],
  version: "0",
});
console.log(JSON.stringify({ url: await server.listen() }));

let start = process.cpuUsage();
for await (const name of createInterface({ input: process.stdin })) {
  if (name === "end") {
    const { user, system } = process.cpuUsage(start);
    console.log(JSON.stringify({ cpu_ms: (user + system) / 1000 }));
    continue;
  }
  (globalThis as { gc?: () => void }).gc?.();
  start = process.cpuUsage();
  if (name === "begin") {
    console.log("{}");
    continue;
  }
  const received = (await READERS[name]?.()) ?? [];
  const { user, system } = process.cpuUsage(start);
  const pieces = (received as readonly Piece[]).filter(({ kind, type = "" }) => PIECES.has(kind ?? type));
  const text = pieces.map((piece) => piece.text ?? piece.delta).join("");
  const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(JSON.stringify(piece)), 0);
  console.log(JSON.stringify({ cpu_ms: (user + system) / 1000, pieces: pieces.length, text, bytes }));
}
await server.end();
