/** The page: the conversation that its address names, of the user whom its server knows. */

import { SteplineAgent } from "@stepline/ag-ui";
import { showAgent } from "./page.ts";

/** Return what `vite.config.ts` answers. */
async function openSession(): Promise<{ api_url: string; token: string }> {
  const answer = await fetch("/session");
  if (!answer.ok) throw new Error("there is no session: `stepline up` starts the stage");
  return answer.json();
}

location.hash ||= crypto.randomUUID();
const agent = new SteplineAgent({
  url: (await openSession()).api_url,
  token: async () => (await openSession()).token,
  conversation: location.hash.slice(1),
});
showAgent(agent);
await agent.connectAgent();
