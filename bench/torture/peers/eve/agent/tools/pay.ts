import { defineTool } from "eve/tools";
import { always } from "eve/tools/approval";
import { z } from "zod";
import { effect } from "../lib/effects.mjs";

export default defineTool({
  description: "Pay.",
  inputSchema: z.object({ word: z.string() }),
  approval: always(),
  execute: ({ word }) => effect("paid", word),
});
