/** The page: the conversation that its address names, of the user whom its server knows. */

import { steplineTransport } from "@stepline/ai-sdk";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Conversation } from "./conversation.tsx";
import { openChat } from "./open-chat.ts";

/** Return what `vite.config.ts` answers. */
async function openSession(): Promise<{ api_url: string; token: string }> {
  const answer = await fetch("/session");
  if (!answer.ok) throw new Error("there is no session: `stepline up` starts the stage");
  return answer.json();
}

location.hash ||= crypto.randomUUID();
const transport = steplineTransport({
  url: (await openSession()).api_url,
  token: async () => (await openSession()).token,
  conversation: location.hash.slice(1),
});
const chat = await openChat(transport);
createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <Conversation chat={chat} transport={transport} />
  </StrictMode>,
);
