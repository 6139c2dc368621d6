// A durable agent on Mastra's own HTTP routes: events in a Redis cache, state in Redis or Postgres, recovery at each start.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { serve } from "@hono/node-server";
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { createDurableAgent } from "@mastra/core/agent/durable";
import { createTool } from "@mastra/core/tools";
import { MastraServer } from "@mastra/hono";
import { Memory } from "@mastra/memory";
import { PostgresStore } from "@mastra/pg";
import { nodeRedisPreset, RedisServerCache, RedisStore } from "@mastra/redis";
import { Hono } from "hono";
import { createClient } from "redis";
import { z } from "zod";
import { effect } from "./effects.mjs";

const { MODEL_URL, REDIS_URL, POSTGRES_URL, INSTRUCTIONS, LOOKS, PORT } = process.env;
const DRAIN_MS = 9_000;

const client = createClient({ url: REDIS_URL });
client.on("error", (error) => console.error("redis:", error.message));
await client.connect();

const scripted = createOpenAICompatible({ name: "scripted", baseURL: `${MODEL_URL}/v1`, apiKey: "none" });
const tool = (id, execute, requireApproval = false) =>
  createTool({ id, description: id, inputSchema: z.object({ word: z.string() }), requireApproval, execute });

const agent = new Agent({
  id: "bench",
  name: "bench",
  instructions: INSTRUCTIONS,
  model: scripted("scripted"),
  memory: new Memory({ options: { lastMessages: 100 } }),
  tools: {
    ...(LOOKS ? { look: tool("look", async ({ word }) => `looked ${word}`) } : {}),
    note: tool("note", ({ word }) => effect("noted", word)),
    pay: tool("pay", ({ word }) => effect("paid", word), true),
  },
});

const mastra = new Mastra({
  agents: { bench: createDurableAgent({ agent, cache: new RedisServerCache({ client }, nodeRedisPreset) }) },
  storage: POSTGRES_URL
    ? new PostgresStore({ id: "store", connectionString: POSTGRES_URL })
    : new RedisStore({ id: "store", client }),
  recovery: { durableAgents: "auto" },
});

const app = new Hono();
await new MastraServer({ app, mastra }).init();
const server = serve({ fetch: app.fetch, port: Number(PORT), hostname: "127.0.0.1" });
process.on("SIGTERM", async () => {
  server.close();
  await mastra.shutdown({ drainTimeout: DRAIN_MS });
  process.exit(0);
});
console.log("recovered:", JSON.stringify(await mastra.recoverAllDurableAgents()));
