import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { FreshProject } from "./packed.ts";

it("the packed package works in a fresh project, with its peers alone", () => {
  const project = new FreshProject("@stepline/ai-sdk");
  try {
    expect(project.manifest.dependencies).toBeUndefined();
    expect(Object.keys(project.manifest.peerDependencies ?? {})).toEqual(["ai"]);
    const printed = project.use(`
      import type { ChatTransport, UIMessage } from "ai";
      import { ClientError, steplineTransport } from "@stepline/ai-sdk";
      const options = { url: "https://api.example.com", token: async () => "a.b.c", conversation: "c-1" };
      const transport: ChatTransport<UIMessage> = steplineTransport(options);
      console.log(typeof transport.sendMessages, transport.resumeStreamIsReplay, new ClientError("busy", "").code);
    `);
    expect(printed).toBe("function true busy\n");
  } finally {
    project.remove();
  }
});

it("the mapping has at most 150 lines", () => {
  const source = readFileSync(new URL("../../packages/ai-sdk/mapping.ts", import.meta.url), "utf8");
  expect(source.split("\n").length - 1).toBeLessThanOrEqual(150);
});
