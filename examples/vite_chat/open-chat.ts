import { Chat } from "@ai-sdk/react";
import type { SteplineTransport } from "@stepline/ai-sdk";
import { lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from "ai";

/** Return the chat of a conversation, with its newest messages. */
export async function openChat(transport: SteplineTransport): Promise<Chat<UIMessage>> {
  return new Chat({
    transport,
    messages: await transport.messages(),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
}
