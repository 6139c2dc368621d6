/** The page of examples/copilot, with the agent of a test, which reads its events. */

import type { Event } from "@ag-ui/client";
import { SteplineAgent, type SteplineAgentOptions } from "@stepline/ag-ui";
import { showAgent } from "./page.ts";

declare global {
  interface Window {
    readonly options: SteplineAgentOptions;
    readonly events: Event[];
  }
}

const agent = new SteplineAgent(window.options);
Object.assign(window, { agent, events: [] });
agent.subscribe({
  onEvent: ({ event }) => {
    window.events.push(event as Event);
  },
});
showAgent(agent);
await agent.connectAgent();
document.body.dataset.connected = "yes";
