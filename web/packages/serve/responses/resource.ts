/** A response as a resource of the protocol. Source: openresponses.org, OpenAPI 2026-04-24, `ResponseResource`. */

import type { ClientEvent } from "../../../src/client/index.ts";
import type { Item } from "./items.ts";
import { type ResponseName, responseId } from "./response_id.ts";

/** A tool of the caller that is left out. */
export interface LeftOut {
  readonly code: "unsupported_tool";
  readonly param: string;
  readonly name: string;
}

/** What is known of a response before its turn. */
export interface ResponseFacts {
  readonly name: ResponseName;
  /** In epoch seconds. */
  readonly createdAt: number;
  readonly previous: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly background: boolean;
  readonly leftOut: readonly LeftOut[];
  /** The data of `approval.requested`, if the response follows its answer. */
  readonly request: ClientEvent["data"] | null;
}

export interface Outcome {
  readonly status: "queued" | "in_progress" | "completed" | "incomplete" | "cancelled" | "failed";
  readonly incomplete?: string;
  readonly error?: { readonly code: string; readonly message: string };
  /** When the turn ended, in ISO 8601. */
  readonly at?: string;
}

export type Resource = Readonly<Record<string, unknown>> & { readonly id: string; readonly status: Outcome["status"] };

export function resourceOf(
  { name, createdAt, previous, metadata, background, leftOut }: ResponseFacts,
  { status, incomplete, error, at }: Outcome,
  output: readonly Item[],
  usage: ClientEvent["data"] | null,
): Resource {
  return {
    id: responseId(name),
    object: "response",
    created_at: createdAt,
    completed_at: at ? seconds(at) : null,
    status,
    incomplete_details: incomplete ? { reason: incomplete } : null,
    model: name.model,
    previous_response_id: previous,
    conversation: { id: name.conversation },
    output,
    error: error ?? null,
    usage: usage && usageOf(usage),
    background,
    metadata,
    ...UNUSED,
    ...(leftOut.length && { "stepline:left_out": leftOut }),
  };
}

export function seconds(iso: string): number {
  return Math.floor(Date.parse(iso) / 1000);
}

/** What a caller cannot choose. */
const UNUSED = {
  instructions: null,
  tools: [],
  tool_choice: "auto",
  parallel_tool_calls: true,
  truncation: "disabled",
  text: { format: { type: "text" } },
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  top_logprobs: 0,
  reasoning: null,
  max_output_tokens: null,
  max_tool_calls: null,
  store: true,
  service_tier: "default",
  safety_identifier: null,
  prompt_cache_key: null,
};

/** Return the usage of a turn. Tokens of reasoning are output tokens, which models do not count apart. */
function usageOf(data: ClientEvent["data"]): object {
  const [input, output] = [Number(data.total_input_tokens), Number(data.output_tokens)];
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: Number(data.cache_read_tokens),
      cache_write_tokens: Number(data.cache_write_5m_tokens) + Number(data.cache_write_1h_tokens),
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
}
