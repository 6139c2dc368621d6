import type { ContentPart } from "@ag-ui/client";
import type { SteplineAgent } from "@stepline/ag-ui";

/** A file of the agent, as the event `chat.files` names it. */
export type Made = { filename: string; logical_path: string };

/** Show files of the agent, with the addresses that they have now. */
export async function showFiles(agent: SteplineAgent, files: readonly Made[]): Promise<void> {
  for (const { filename, logical_path: path } of files) {
    const link = document.createElement("a");
    link.textContent = filename;
    link.href = await agent.link(path);
    const item = document.createElement("li");
    item.append(link);
    document.querySelector("ul")?.append(item);
  }
}

/** Return a file of the user as a part of a message. */
export async function partOf(file: File): Promise<ContentPart> {
  const bytes = Array.from(new Uint8Array(await file.arrayBuffer()), (byte) => String.fromCharCode(byte)).join("");
  const source = { type: "data" as const, value: btoa(bytes), mimeType: file.type };
  return { type: "document", source, metadata: { filename: file.name } };
}
