import { defineTool } from "eve/tools";
import { z } from "zod";

export default defineTool({
  description: "Look.",
  inputSchema: z.object({ word: z.string() }),
  execute: ({ word }) => `looked ${word}`,
});
