"""An agent that knows the opening hours of a shop."""

from typing import Annotated

from stepline import BaseWorkflow, Tool, tool


@tool(
    "greeter.hours",
    effect="pure",
    read_only=True,
    examples=({"day": "sunday"},),
    requests=("When do you open on Sunday?",),
)
def hours(day: Annotated[str, "a day of the week, in small letters"]) -> str:
    """Look up when the shop is open."""
    return "closed" if day == "sunday" else "9 to 18"


TOOLS: tuple[Tool, ...] = (hours,)


class Greeter(BaseWorkflow):
    """Answers when the shop is open."""

    tools_module = "greeter"


WORKFLOW = Greeter
