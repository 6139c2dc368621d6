"""Ask the agent in this process: `python -m examples.own_model.ask TEXT`, with the variables of `model.env`."""

import asyncio
import os
import sys

from examples.own_model import Local
from stepline import InProcess, Lane, Settings, in_memory


async def ask(text: str) -> str:
    """Return the answer to a message, and below it the work that it took."""
    runtime = InProcess(in_memory(Settings.from_env(os.environ)))
    workflow = Local(runtime, Lane(tenant="local", project="own", conversation="c-1"), user="ada")
    result = await workflow.process({"text": text, "message_id": "m-1"})
    if result.usage is None or result.code:
        return f"{result.code}: {result.message}"
    return f"{result.answer}\n\n{result.rounds} rounds, {result.usage.output_tokens} tokens written"


if __name__ == "__main__":
    print(asyncio.run(ask(sys.argv[1])))
