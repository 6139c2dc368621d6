"""`model_tools.ask`: the model for programs, by the roles that their bundle declares.

A function makes the call, so that no key of the model is near a program; it bounds and meters it.
Source: docs/concepts/execution.md#calls-that-a-function-makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from stepline.errors import ToolError
from stepline.metering.convention import usage_attributes
from stepline.ports.model import Completion, ModelClient, ModelRequest, Part
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import choice, closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

ASK_MODEL: Final = "model_tools.ask"
ANSWER_TOKENS: Final = 1_024
ANSWER_TOKENS_MAX: Final = 8_192
PROMPT_CHARS: Final = 400_000


def ask_model_tool(roles: Sequence[str]) -> Tool:
    """Return the tool that asks the models of these roles; the first one is the default."""
    spec = ToolSpec(
        tool_id=ASK_MODEL,
        purpose=(
            "Ask a language model from a program, such as once for each of many texts. It sees only what you pass, and its "
            "answer is a text to check. The calls of a run are few: pass several texts at once if you can."
        ),
        schema=closed_schema(
            {
                "prompt": param("string", "the request", minLength=1, maxLength=PROMPT_CHARS),
                "system": param("string", "instructions, in place of none", maxLength=PROMPT_CHARS),
                "role": choice(roles, "the purpose, which chooses the model", default=roles[0]),
                "max_tokens": param(
                    "integer",
                    "the length of the answer at most",
                    minimum=1,
                    maximum=ANSWER_TOKENS_MAX,
                    default=ANSWER_TOKENS,
                ),
            },
            "prompt",
        ),
        returns="text; stop_reason (end_turn, max_tokens, …); model; usage, its tokens",
        effect="once",
        read_only=True,
        in_react=False,
        cancellable=True,
        examples=({"prompt": "Which of these complaints are about delivery? Answer with their numbers.\n…"},),
    )

    def run(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        model = context.model
        if model is None:
            raise ToolError("there is no model here", code="model_unavailable")
        request = ModelRequest(
            role=params.get("role", roles[0]),
            system=(Part(text=params["system"]),) if params.get("system") else (),
            content=(Part(text=params["prompt"]),),
            max_tokens=params.get("max_tokens", ANSWER_TOKENS),
        )
        made = _ask(model, request, context)
        if made.declined is not None and made.declined.fallback:
            made = _ask(model, replace(request, declined=True), context)
        if made.declined is not None:
            raise ToolError("the model declined this request", code="model_declined")
        usage = {name.rpartition("usage.")[2]: count for name, count in usage_attributes(made.usage).items()}
        ret = {"text": made.text, "stop_reason": made.stop_reason, "model": made.model, "usage": usage}
        return ToolOutput(ret=ret)

    return Tool(spec=spec, run=run)


def _ask(model: ModelClient, request: ModelRequest, context: ToolContext) -> Completion:
    """Return the model's answer; the call ends early if the user steers. Raises the errors of `ModelStream`."""
    with model.stream(request) as running:
        for _ in running:
            if context.cancel.requested:
                running.abort()
        context.check_cancelled()
        return running.completion()
