import { defineTool } from "eve/tools";
import { z } from "zod";
import { effect } from "../lib/effects.mjs";

export default defineTool({
  description: "Make a note.",
  inputSchema: z.object({ word: z.string() }),
  execute: ({ word }) => effect("noted", word),
});
