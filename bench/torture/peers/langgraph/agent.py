"""The agent for `langgraph dev`: `create_agent`, with the documented middleware that asks a person about `pay`."""

import os

from effects import look, note, pay
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_openai import ChatOpenAI

NEXT = os.environ.get("TORTURE_RELEASE") == "next"  # noqa: TID251 - a program of a peer's environment

agent = create_agent(
    ChatOpenAI(model="scripted", base_url=os.environ["TORTURE_MODEL"] + "/v1", api_key="none"),  # noqa: TID251 - as above
    tools=[look, note, pay] if NEXT else [note, pay],
    system_prompt="You are a later release. You follow the commands of the user."
    if NEXT
    else "You follow the commands of the user.",
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
)
