import { type Chat, useChat } from "@ai-sdk/react";
import type { SteplineTransport } from "@stepline/ai-sdk";
import type { UIMessage } from "ai";
import type { FormEvent } from "react";
import { Part } from "./part.tsx";

/** The messages of a conversation, and a form that sends one with files, or redirects the running turn. */
export function Conversation({ chat, transport }: { chat: Chat<UIMessage>; transport: SteplineTransport }) {
  const { messages, status, error, sendMessage, regenerate, stop, clearError, addToolApprovalResponse } = useChat({
    chat,
    resume: true,
  });

  function send(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = event.currentTarget;
    const { text, files } = form.elements as unknown as Record<string, HTMLInputElement>;
    const { submitter } = event.nativeEvent as SubmitEvent;
    const isSteer = (submitter as HTMLButtonElement | null)?.name === "steer";
    void sendMessage({ text: text.value, files: files.files ?? undefined }, { body: isSteer ? { kind: "steer" } : {} });
    form.reset();
  }

  async function open(address: string) {
    window.open(await transport.link(address), "_blank", "noopener,noreferrer");
  }

  return (
    <main data-status={status}>
      {messages.map(({ id, role, parts }) => (
        <article key={id} className={role}>
          {parts.map((part, i) => (
            <Part key={i} part={part} open={open} answer={addToolApprovalResponse} />
          ))}
        </article>
      ))}
      {error && (
        <p role="alert">
          {error.message} <button onClick={clearError}>Close</button>
        </p>
      )}
      <form onSubmit={send}>
        <input name="text" aria-label="Message" autoComplete="off" />
        <input name="files" type="file" multiple aria-label="Files" />
        <button>Send</button>
        <button name="steer">Redirect</button>
        <button type="button" onClick={stop}>
          Stop
        </button>
        <button type="button" onClick={() => regenerate()}>
          Again
        </button>
      </form>
    </main>
  );
}
