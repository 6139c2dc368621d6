"""The agent for `langgraph dev`: `create_agent`, with the documented middleware that asks a person about `pay`."""

import os
import signal
import time
from pathlib import Path

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_openai import ChatOpenAI

EFFECTS = Path(os.environ["TORTURE_EFFECTS"])  # noqa: TID251 - a program of a peer's environment
NEXT = os.environ.get("TORTURE_RELEASE") == "next"  # noqa: TID251 - as above


def act(word: str) -> None:
    """Do the effect, and what the control files order after it."""
    with (EFFECTS / "ledger").open("a") as ledger:
        ledger.write(f"{word}\n")
    if (EFFECTS / f"kill.{word}").exists():
        (EFFECTS / f"kill.{word}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    while (EFFECTS / f"hold.{word}").exists():
        time.sleep(0.05)


def look(word: str) -> str:
    """Look at a word."""
    return f"looked {word}"


def note(word: str) -> str:
    """Note a word."""
    act(word)
    return f"noted {word}"


def pay(word: str) -> str:
    """Pay for a word."""
    act(word)
    return f"paid {word}"


agent = create_agent(
    ChatOpenAI(model="scripted", base_url=os.environ["TORTURE_MODEL"] + "/v1", api_key="none"),  # noqa: TID251 - as above
    tools=[look, note, pay] if NEXT else [note, pay],
    system_prompt="You are a later release. You follow the commands of the user."
    if NEXT
    else "You follow the commands of the user.",
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
)
