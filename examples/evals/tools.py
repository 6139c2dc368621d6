"""The tools of the harbour. Their texts are the part of the prompt that is the bundle's own."""

from typing import Annotated, Final

from stepline import Tool, ToolError, tool

HIGH_WATER: Final = {"friday": "11:40", "saturday": "12:25"}
Day = Annotated[str, "a day of the week, in small letters"]


@tool(
    "harbour.tide",
    effect="pure",
    read_only=True,
    examples=({"day": "friday"},),
    requests=("When is high water on Friday?",),
)
def tide(day: Day) -> dict[str, str]:
    """Look up the time of high water. Never answer it from memory."""
    if day not in HIGH_WATER:
        raise ToolError(f"the table has no {day}", code="day_unknown")
    return {"day": day, "high_water": HIGH_WATER[day]}


@tool(
    "harbour.book",
    approval="always",
    examples=({"day": "friday", "metres": 9},),
    requests=("Book a berth for nine metres on Friday.",),
)
def book(day: Day, metres: Annotated[int, "the length of the boat"]) -> dict[str, str]:
    """Book a berth for a day."""
    return {"berth": f"{'B' if metres > 8 else 'A'}-4", "day": day}


TOOLS: Final[tuple[Tool, ...]] = (tide, book)
