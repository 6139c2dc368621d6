/**
 * The conversation of examples/vite_chat, in StrictMode.
 *
 * `api` and `conversation` of the address say which; with `own`, `useChat` makes the chat itself.
 */

import { Chat, useChat } from "@ai-sdk/react";
import { type SteplineTransport, steplineTransport } from "@stepline/ai-sdk";
import type { UIMessage } from "ai";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { Conversation } from "./conversation.tsx";
import { openChat } from "./open-chat.ts";

declare global {
  interface Window {
    /** Given by the test. */
    fetchToken(): Promise<string>;
    transport: SteplineTransport;
    chat: Chat<UIMessage>;
    /** The text of the newest answer, each time that one changes. */
    texts: string[];
    /** The types of the data that `onData` has received. */
    passing: string[];
  }
}

const query = new URLSearchParams(location.search);
const transport = steplineTransport({
  url: query.get("api") ?? "",
  conversation: query.get("conversation") ?? "",
  token: () => window.fetchToken(),
});
const chat = await openChat(transport);

/** A place in an application: the user leaves it, and comes back. */
function Place() {
  const [isHere, setHere] = useState(true);
  return (
    <>
      <button onClick={() => setHere(!isHere)}>{isHere ? "Leave" : "Come back"}</button>
      {isHere && (query.has("own") ? <Own /> : <Conversation chat={chat} transport={transport} />)}
    </>
  );
}

/** A component whose chat lives as long as it does. */
function Own() {
  const { messages, status, sendMessage, stop } = useChat({
    transport,
    messages: chat.messages,
    resume: true,
    onData: ({ type }) => window.passing.push(type),
  });
  return (
    <main data-status={status}>
      {messages.map(({ id, role, parts }) => (
        <article key={id} className={role}>
          {parts.map((part, i) => part.type === "text" && <p key={i}>{part.text}</p>)}
        </article>
      ))}
      <button onClick={() => sendMessage({ text: query.get("own") ?? "" })}>Send</button>
      <button onClick={stop}>Stop</button>
    </main>
  );
}

Object.assign(window, { transport, chat, texts: [], passing: [] });
chat["~registerMessagesCallback"](() => {
  const { role, parts = [] } = chat.lastMessage ?? {};
  if (role === "assistant") window.texts.push(parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
});
createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <Place />
  </StrictMode>,
);
