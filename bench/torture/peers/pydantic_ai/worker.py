"""The durable function of a Pydantic AI agent, and the part of Lambda's API by which the local runner invokes it.

Source: the README of `pydantic_ai_harness.aws_lambda`: `run_durable` in a synchronous handler, tools that must not repeat, and
published versions, to which running executions are pinned: the functions `agent-one` and `agent-next`. The runner's README:
`dex-local-runner start-server` with its SQLite store, and a callback for the person's answer.
"""

import json
import os
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import StepSemantics
from aws_durable_execution_sdk_python.retries import RetryPresets
from aws_durable_execution_sdk_python_testing.invoker import create_test_lambda_context
from effects import look, note, pay
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai_harness.aws_lambda import AWSLambdaDurability, run_durable

MODEL = os.environ["TORTURE_MODEL"]  # noqa: TID251 - a program of a peer's environment
ONCE = {
    "aws_lambda": {
        "step_semantics": StepSemantics.AT_MOST_ONCE_PER_RETRY,
        "retry_strategy": RetryPresets.none(),
    }
}


def agent_of(release: str) -> Agent:
    """Return the agent of a release."""
    tools = [Tool(note, metadata=ONCE), Tool(pay, metadata=ONCE, requires_approval=True)]
    later = release == "next"
    return Agent(
        OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=f"{MODEL}/v1", api_key="none")),
        name="agent",
        instructions="You are a later release. You follow the commands of the user."
        if later
        else "You follow the commands of the user.",
        tools=[Tool(look), *tools] if later else tools,
        output_type=[str, DeferredToolRequests],
        capabilities=[AWSLambdaDurability()],
    )


def handler_of(release: str):
    """Return the durable handler of a release."""
    agent = agent_of(release)

    @durable_execution
    def handle(event, context):
        history = ModelMessagesTypeAdapter.validate_json(event["history"])
        result = run_durable(lambda: agent.run(event["prompt"], message_history=history), context=context)
        while isinstance(result.output, DeferredToolRequests):
            verdicts = {}
            for call in result.output.approvals:
                callback = context.create_callback(name=call.tool_call_id)
                verdicts[call.tool_call_id] = "approve" in str(callback.result())
            messages, answers = result.all_messages(), DeferredToolResults(approvals=verdicts)
            result = run_durable(
                lambda messages=messages, answers=answers: agent.run(
                    message_history=messages, deferred_tool_results=answers
                ),
                context=context,
            )
        return result.all_messages_json().decode()

    return handle


HANDLERS = {f"agent-{release}": handler_of(release) for release in ("one", "next")}


class Invocations(BaseHTTPRequestHandler):
    """`POST /2015-03-31/functions/<name>/invocations`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Print nothing."""

    def do_GET(self):
        self._answer(200, {})

    def do_POST(self):
        name = unquote(self.path.split("/")[3]).partition(":")[0]
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            output = HANDLERS[name](event, create_test_lambda_context())
        except Exception as error:  # noqa: BLE001 - as Lambda answers when a function raises
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            fields = {"errorMessage": str(error), "errorType": type(error).__name__}
            self._answer(200, fields, {"X-Amz-Function-Error": "Unhandled"})
            return
        self._answer(200, output)

    def _answer(self, status, value, headers=None):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("x-amzn-RequestId", str(uuid.uuid4()))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Invocations).serve_forever()
