/**
 * The body of a request for a response, piece by piece. Source: openresponses.org, OpenAPI 2026-04-24,
 * `CreateResponseBody`; `openai` 3.57, types/responses.
 */

import { Refusal } from "../refusal.ts";
import { BodyRefusal, badField, type Fields, flagIn, isObject, textIn } from "./fields.ts";
import { type Input, readInput } from "./input.ts";
import type { LeftOut } from "./resource.ts";

export interface Asked {
  readonly model: string;
  readonly stream: boolean;
  readonly background: boolean;
  /** The id of a response of the conversation, or the conversation itself, "" for none. */
  readonly previous: string;
  readonly conversation: string;
  readonly metadata: Fields;
  readonly input: Input;
  readonly leftOut: readonly LeftOut[];
}

/** Parameters that are read. */
const READ = new Set([
  ...["model", "input", "instructions", "previous_response_id", "conversation", "stream", "background", "metadata"],
  ...["tools", "tool_choice", "text"],
]);

/** Parameters of the model's provider, which the agent chooses, and hints. */
const IGNORED = new Set([
  ...["temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias"],
  ...["logprobs", "top_logprobs", "max_output_tokens", "reasoning", "reasoning_effort", "verbosity", "truncation"],
  ...["include", "store", "parallel_tool_calls", "stream_options", "service_tier", "user", "safety_identifier"],
  ...["prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"],
]);

/** Return what a body asks for. Throws Refusal. */
export function readRequest(body: unknown): Asked {
  if (!isObject(body)) throw new Refusal(400, "bad_message", "The body is not an object.");
  const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  const unknown = Object.keys(given).find((name) => !READ.has(name) && !IGNORED.has(name));
  if (unknown) throw new BodyRefusal("unsupported_parameter", unknown, `This server has no parameter \`${unknown}\`.`);
  const { conversation = "", metadata = {}, text } = given;
  if (!isObject(metadata)) throw badField("metadata");
  if (isObject(text) && isObject(text.format) && text.format.type !== "text") {
    throw new BodyRefusal("unsupported_parameter", "text.format", "An answer has the format of its agent.");
  }
  const previous = textIn(given, "previous_response_id");
  if (previous && conversation) throw badField("conversation", "It is instead of `previous_response_id`.");
  return {
    model: textIn(given, "model"),
    stream: flagIn(given, "stream"),
    background: flagIn(given, "background"),
    previous,
    conversation: isObject(conversation) ? textIn(conversation, "id") : textIn(given, "conversation"),
    metadata,
    input: readInput(given.input ?? "", textIn(given, "instructions")),
    leftOut: readTools(given),
  };
}

/** Return the tools of the caller: an answer needs none of them, unless `tool_choice` demands a call. */
function readTools({ tools = [], tool_choice: choice = "auto" }: Fields): readonly LeftOut[] {
  if (!Array.isArray(tools)) throw badField("tools");
  const { type, mode = "auto" } = isObject(choice) ? choice : { type: "", mode: choice };
  if ((type && type !== "allowed_tools") || (mode !== "auto" && mode !== "none")) {
    throw new BodyRefusal("unsupported_tool", "tool_choice", "The agent calls its own tools alone.");
  }
  return tools.map((tool, at) => {
    const { name, function: inner, type: kind = "" } = isObject(tool) ? tool : {};
    const named = name ?? (isObject(inner) ? inner.name : kind);
    return { code: "unsupported_tool", param: `tools[${at}]`, name: String(named) };
  });
}
