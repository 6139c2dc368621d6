import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { FreshProject } from "./packed.ts";

const PACKAGES = [
  {
    name: "@stepline/client",
    peers: [],
    use: `
      import { type ClientState, emptyState, foldFrame, readFrame, Session } from "@stepline/client";
      const frame = readFrame('{"frame":"delta","conversation":"c-1","claim":1,"lane":"answer.0","off":0,"text":"Hi"}');
      const state: ClientState = frame ? foldFrame(emptyState("c-1"), frame)[0] : emptyState("");
      console.log(typeof Session, state.conversation, state.claim);
    `,
    prints: "function c-1 1\n",
  },
  {
    name: "@stepline/ai-sdk",
    peers: ["ai"],
    use: `
      import type { ChatTransport, UIMessage } from "ai";
      import { ClientError, steplineTransport } from "@stepline/ai-sdk";
      const options = { url: "https://api.example.com", token: async () => "a.b.c", conversation: "c-1" };
      const transport: ChatTransport<UIMessage> = steplineTransport(options);
      console.log(typeof transport.sendMessages, transport.resumeStreamIsReplay, new ClientError("busy", "").code);
    `,
    prints: "function true busy\n",
  },
  {
    name: "@stepline/ag-ui",
    peers: ["@ag-ui/client", "rxjs"],
    use: `
      import type { AbstractAgent } from "@ag-ui/client";
      import { SteplineAgent, type Verdict } from "@stepline/ag-ui";
      const options = { url: "https://api.example.com", token: async () => "a.b.c", conversation: "c-1" };
      const agent: AbstractAgent = new SteplineAgent(options);
      const verdict: Verdict = { approved: true };
      console.log(agent.threadId, verdict.approved, agent.clone().threadId);
    `,
    prints: "c-1 true c-1\n",
  },
];

/** Return the code of a page in docs/how-to, in its blocks. */
function guide(page: string): string[] {
  const text = readFileSync(new URL(`../../../docs/how-to/${page}.md`, import.meta.url), "utf8");
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code ?? "");
}

it.each(PACKAGES)(
  "$name, packed, works in a fresh project with its peers alone",
  ({ name, peers, use, prints }) => {
    const project = new FreshProject(name);
    try {
      expect(project.manifest.dependencies).toBeUndefined();
      expect(Object.keys(project.manifest.peerDependencies ?? {})).toEqual(peers);
      expect(project.use(use)).toBe(prints);
      project.check(guide(name.replace("@stepline/", "")).join("\n"));
      for (const code of guide("serve")) if (peers.some((peer) => code.includes(`"${peer}"`))) project.check(code);
    } finally {
      project.remove();
    }
  },
  600_000,
);
