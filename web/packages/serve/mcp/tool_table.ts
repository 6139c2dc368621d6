/** The tools of the MCP server, and the parameters that they take. */

import type { Tool } from "@modelcontextprotocol/server";
import { z } from "zod";

const conversation = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/)
  .describe("The id of a conversation.");

export const PARAMS = {
  ask: z.strictObject({
    message: z.string().min(1).describe("The message of the user."),
    conversation: conversation.optional().describe("A conversation to continue; a new one begins without it."),
  }),
  status: z.strictObject({ conversation }),
  files: z.strictObject({
    conversation,
    path: z.string().min(1).optional().describe("A file of the list: the answer is a link that expires."),
    after: z.string().min(1).optional().describe("`next` of the list before, for the files after it."),
  }),
  answer: z.strictObject({
    conversation,
    call_id: z.string().min(1).describe("The call that waits, as `status` names it."),
    verdict: z.enum(["approve", "deny", "edit"]).describe("`edit` runs the call with `params`."),
    reason: z.string().optional().describe("Why it is denied; the agent reads it."),
    params: z.record(z.string(), z.json()).optional().describe("All parameters of the edited call."),
  }),
} as const;

export type ToolName = keyof typeof PARAMS;

const ABOUT: Readonly<Record<ToolName, Omit<Tool, "name" | "inputSchema">>> = {
  ask: {
    title: "Ask the agent",
    description:
      "Send a message to the agent and return its answer, with the conversation to continue and the files that it made." +
      " A turn that waits for a person's approval is returned as it is then.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    execution: { taskSupport: "optional" },
  },
  status: {
    title: "Status of a conversation",
    description: "Return the open turn with its plan, the approval that it waits for, and the last answer.",
    annotations: { readOnlyHint: true },
  },
  files: {
    title: "Files of a conversation",
    description: "List the files of a conversation, newest first, or return a link to one of them.",
    annotations: { readOnlyHint: true },
  },
  answer: {
    title: "Answer an approval",
    description: "Answer for the user whether a call may run. The record names this client.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  },
};

const TOOLS = (Object.keys(PARAMS) as ToolName[]).map(
  (name): Tool => ({
    name,
    ...ABOUT[name],
    inputSchema: z.toJSONSchema(PARAMS[name]) as Tool["inputSchema"],
  }),
);

/** Return the tools of a client; `answer` is one of them only if the operator allows it. */
export function toolsOf(mayAnswer: boolean): Tool[] {
  return TOOLS.filter(({ name }) => mayAnswer || name !== "answer");
}
