import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent } from "eve";

const scripted = createOpenAICompatible({ name: "scripted", baseURL: `${process.env.MODEL_URL}/v1`, apiKey: "none" });

export default defineAgent({ model: scripted("scripted"), modelContextWindowTokens: 1_000_000, defaultTools: false });
