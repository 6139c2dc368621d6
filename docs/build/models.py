"""docs/reference/models.md: the roles of a model, and the parameters of each family of models."""

from __future__ import annotations

from typing import Final

from docs.build import DOCS
from stepline.adapters.anthropic.call import SMALL_TOKENS
from stepline.adapters.anthropic.family import MODEL_FAMILIES, ModelFamily
from stepline.adapters.anthropic.provider import AnthropicProvider, BedrockProvider
from stepline.adapters.chat.family import CHAT_FAMILIES, ChatFamily
from stepline.adapters.provider.wire import ROOM_TOKENS
from stepline.loop.summarise import PREFIX_ROLE, SUMMARY_ROLE
from stepline.loop.title import ROLE as GATE_ROLE
from stepline.ports.model import DECISION_ROLE

PATH: Final = DOCS / "reference/models.md"


WIRES: Final = """\
## Wires

| wire | spoken by | cache marks | files | thinking | tokens |
|---|---|---|---|---|---|
| `messages` | Anthropic, Bedrock for Claude, other servers of the Messages API | up to four, for 5 minutes or an hour | pictures, PDFs | by the [family](#families) | counted as the answer begins, and at its end |
| `chat` | OpenAI, vLLM, Ollama, llama.cpp, LiteLLM, OpenRouter, compatible addresses of others | none: servers cache by themselves | by the model's name or the provider's row; others are replaced by a notice | an effort, or a number of tokens that is added to the answer's limit | counted at the end, with those read from a cache; else estimated |
| `converse` | Bedrock, for the models of all makers | for Claude and Nova | pictures and PDFs, or those of the provider's row | a number of tokens that is added to the answer's limit | counted at the end |

[Use a model of your own](../how-to/own-model.md) shows how to choose one. On each wire:

- the context window is `STEPLINE_CONTEXT_WINDOW_TOKENS`, or less by the row's `window_tokens`. If a server refuses a request as too
  long, the context is reduced and the round begins again;
- tokens are those that the server counts. Without a count they are estimated by the bytes of the text, at 3.2 for a token, and marked
  so in the receipt; the next count corrects the estimates of the conversation, from which pruning and compaction are decided;
- the price is that of the row, of `STEPLINE_PRICES` or of our table. A model without one has null in receipts, and is not called if a
  [limit in dollars](../concepts/tenants.md) applies.

### Providers

`anthropic` and `bedrock` (wire `messages`) and `openai` (wire `chat`) are known by name; every other one is a row of
`STEPLINE_MODEL_PROVIDERS` with its wire and its address. A role names a model of another provider than the stage's as `name:model`;
the name ends at the first colon, has no dot, and is never `arn`. Receipts have the name of a row before that of the model.
The key of the stage (`model_secret_arn`) is that of its own provider; each other one has its own row and secret.

### Chat completions

A request has a system message, a user message in parts, `stream_options.include_usage`, and the limit of the answer:
`max_completion_tokens` for models that think, else `max_tokens`. Of these families more is known, by the beginning of the model's
name after the last `/`; any other model gets `reasoning_effort` only if its role chose an effort, and takes pictures. `thinking`
`disabled` sends the effort `none` to a model whose thinking that switches off, and needs no room for thinking then:

| name begins with | thinks | effort | files |
|---|---|---|---|
{chat_rows}

- Text is `delta.content`, or `message.content` of a server that does not stream, as a text or in parts. `reasoning_content`,
  `reasoning` and tool calls are skipped; of the latter, the metric `FactsUnread` counts one for an answer.
- An answer is complete with its `finish_reason`, or with `[DONE]` after a text. `content_filter` and a `refusal` are
  [refusals](#declining), and so is a prompt that Azure refuses for its content.
- An error within a stream has the meaning of its `code`, if that is a status, or of its `type`. A limit of the account's money
  (`insufficient_quota`) is never requested again. `retry-after-ms` comes before `retry-after`.

### Converse

A row `{{"nova": {{"wire": "converse"}}}}` and a role `nova:eu.amazon.nova-2-lite-v1:0` call a model of Bedrock by the role of the functions; a
deployment grants each model that a role names so. `guardrail_intervened` and `content_filtered` are [refusals](#declining).
"""
DECLINING: Final = """\
## Declining

A model, or its provider's safeguards, may decline to answer. Then its text is void, and nothing is tried again: the role's
`fallback` is called once, by its own family's defaults, and serves the rest of the turn; without one, or if it declines too,
the turn ends with the code `model_declined`. The decision in the log has the provider's category (`cyber`, `bio`, …) and
explanation. If a title or a summary is declined twice, the runtime writes it. A call by `stream_with_channels` ends with the
stop reason `refusal`, and uses no fallback.

## Busy models

A model that is overloaded, limits the rate, cannot be reached or does not answer in time is called again for about 20 seconds;
after that its round [waits](../concepts/turn.md) in the log. A role with `fallback_after_s` calls it again for that time, and then
its `fallback`; a wait that the model requests beyond that time counts at once. Each call begins with the role's own model. The
decision, the receipt and the bill name the model that answered, and tokens of the failed attempts are billed to the model that
used them. A text that the user has seen is never continued by another model: its round begins again, as after any cut.

## Sampling

A `temperature`, of an agent or of `stream_with_channels`, is sent to models of Bedrock under the API version before 2026-10-21.
It has no effect on any other: the version 2026-10-21 has no sampling parameters.
"""
READING: Final = """\
## Reading a response

A response is its text and the reason for its end. It is complete once a stop reason or `message_stop` has arrived, however the stream
then ends: without its last empty line, with `[DONE]`, or with a broken connection. A server that does not stream may send the
message as one JSON. Text is read in a block's deltas, in the block as it begins, and in a message that begins with text. A
stream that ends without either is cut, and requested again if no text has been shown (`stream_cut`); unreadable text, and
data that is not JSON, are never skipped (`stream_malformed`). An answer to its end that has no event of its wire, and is no
stream, is another service's: `model_refused`.

Everything else is a fact outside the text: ids, the model's name, counters, details of a refusal, redundant types of
blocks. A fact that is missing, or of another type than the protocol's, is ignored alone. The metric `FactsUnread` counts
those of another type, and the log line `facts beside an answer were not read` names their fields. Tokens that were not counted
are estimated. Events and blocks of kinds that we do not know are skipped.
"""
NAMES: Final = """\
## Names in Bedrock

| a role names | for example | granted to the functions that call models |
|---|---|---|
| an inference profile of AWS, by its id or ARN | `eu.anthropic.claude-opus-5-5` | profiles of Anthropic's models in the stage's region, and those models in all regions |
| a model, by its id or ARN | `anthropic.claude-haiku-5-5` | Anthropic's models in all regions |
| an application inference profile, by its ARN | `arn:aws:bedrock:eu-central-1:111122223333:application-inference-profile/x1` | that profile, and Anthropic's models in all regions |
| a provisioned throughput, by its ARN | `arn:aws:bedrock:eu-central-1:111122223333:provisioned-model/p1` | that throughput |

Every other ARN is refused at synthesis; other makers' models are not granted. The last two do not contain the name of a model,
by which its family and its prices are found, so name it in `family`:

```sh
stepline deploy --stage prod -c model_provider=bedrock \\
  -c model_roles='{"*": {"model": "arn:aws:bedrock:eu-central-1:111122223333:application-inference-profile/x1", "family": "claude-haiku-4-5"}}'
```

`stepline doctor --aws --stage` looks them up and compares the model with that family.
"""
FAMILY_HEAD: Final = """\
## Families

By the beginning of the model's name; in Bedrock, of the part after `anthropic.`. A model of no family (another maker's, an ARN
without `family`) gets only the parameters that its role chose.

| name begins with | thinks by default | supported `thinking` | effort, with its default in bold | answer at most | caches from | Bedrock's version |
|---|---|---|---|---|---|---|
"""
FAMILY_TAIL: Final = """
An effort above `high` with thinking switched off is refused by those marked \\*.
"""


def render() -> str:
    """Return the page."""
    rows = "\n".join(_row(prefix, family) for prefix, family in MODEL_FAMILIES.items())
    wires = WIRES.format(chat_rows="\n".join(map(_chat_row, CHAT_FAMILIES.items())))
    return "\n".join(
        [_roles(), wires, _thinking(), DECLINING, READING, NAMES, FAMILY_HEAD + rows, FAMILY_TAIL]
    )


def _roles() -> str:
    return f"""\
# Models

Generated from `stepline/adapters/anthropic/family.py` and `stepline/adapters/chat/family.py`; a test compares them.

A call names its purpose, a *role*, and a deployment maps roles to models:

```sh
stepline deploy --stage prod -c model_roles='{{"*": "claude-opus-5-5", "{GATE_ROLE}": {{"model": "claude-haiku-5-5"}}}}'
```

| role | produces |
|---|---|
| `{DECISION_ROLE}` | the decision of a round |
| `{GATE_ROLE}` | the title of a conversation, in version `v2` |
| `{SUMMARY_ROLE}` | a summary of older turns |
| `{PREFIX_ROLE}` | a summary of the open turn's earlier rounds |
| `*` | all others, and those of the bundle |

Without a choice, the model is `{AnthropicProvider.default_model}`, or `{BedrockProvider.default_model}` in Bedrock. A role is a
model's id, or an object:

| field | default | meaning |
|---|---|---|
| `model` | that of `*` | the model's id, after the name of its [provider](#providers) and a colon if that is not the stage's; in Bedrock that of an inference profile (`global.anthropic.…`, `us.anthropic.…`) or its ARN |
| `thinking` | off if the family allows | `adaptive`, `disabled`, `between_tools`, or a budget in tokens, of 1,024 or more |
| `effort` | the family's; `low` for small answers with thinking | `low`, `medium`, `high`, `xhigh` or `max` |
| `max_tokens` | the model's limit | caps the tokens of one call, thinking included |
| `fallback` | none | the model that is called if the first one declines, once; perhaps of another provider |
| `fallback_after_s` | never | calls the fallback also when the model has been [busy or out of reach](#busy-models) for this time, 0 to 120 seconds |
| `family`, `fallback_family` | from the id | the name of the model, such as `claude-haiku-4-5`, where `model` or `fallback` is the ARN of an application inference profile or of a provisioned throughput ([below](#names-in-bedrock)) |
| `cache_ttl` | `5m` | how long the provider keeps a prompt: `5m` or `1h` ([where an hour pays](../concepts/context.md#an-hour)) |

An unknown field or an invalid value is refused when a function starts, with the code `bad_setting`, and
when the stage is synthesised. `stepline doctor --aws --stage` also lists the choices that a role's model refuses.\n"""


def _thinking() -> str:
    rooms = ", ".join(f"{tokens:,} at `{effort}`" for effort, tokens in ROOM_TOKENS.items())
    return f"""## Thinking

Current models think before they answer unless that is switched off, and count it in `max_tokens`. The decision protocol has its
own thinking, which is shown while it is written; a user would wait twice. If a [family](#families) can switch its own thinking off,
it is off, for every role, until the role chooses `adaptive` or an effort above `high`. If it cannot be switched off, a
call requests the tokens of its text, plus room for thinking: {rooms}. A small answer (up to
{SMALL_TOKENS:,} tokens: titles, summaries, the last rounds of a steered turn) then has effort `low`.\n"""


def _chat_row(row: tuple[str, ChatFamily]) -> str:
    prefix, family = row
    efforts = ", ".join(f"`{one}`" for one in family.efforts) or "none"
    thinks = "yes, or `disabled`" if family.off else "yes" if family.thinks else "no"
    cells = (f"`{prefix}`", thinks, efforts, ", ".join(family.takes) or "none")
    return f"| {' | '.join(cells)} |"


def _row(prefix: str, family: ModelFamily) -> str:
    takes = [f"`{kind}`" for kind in family.thinking] + ["a budget"] * family.budget
    efforts = [f"**`{one}`**" if one == family.effort else f"`{one}`" for one in family.efforts]
    cells = (
        f"`{prefix}`" + " \\*" * family.capped,
        "yes" if family.thinks else "no",
        ", ".join(takes),
        ", ".join(efforts) or "none",
        f"{family.output_tokens:,}",
        f"{family.cache_tokens:,}",
        "bedrock-2023-05-31" if family.older else "2026-10-21",
    )
    return f"| {' | '.join(cells)} |"
