"""Judge events of Open Responses by the published types: JSON lines of readings on stdin, findings as JSON lines.

It runs with `openresponses-types` and `openai` of PyPI, which are installed for it.
"""

import json
import sys
from typing import get_args

import openresponses_types.types as published
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, ValidationError

EXTENSIONS = ("mcp_call", "mcp_approval_request", "stepline:plan", "stepline:file")
"""Items that Open Responses does not list: OpenAI's for the provider's own tools, and ours."""
OURS = ("stepline:plan", "stepline:file")
OPENAI = {
    name: model
    for model in get_args(get_args(ResponseStreamEvent)[0])
    for name in get_args(model.model_fields["type"].annotation)
}


def events_by_type():
    """Return the model of each event of Open Responses."""
    found = {}
    for model in vars(published).values():
        if (
            isinstance(model, type)
            and issubclass(model, BaseModel)
            and model.__name__.endswith("StreamingEvent")
        ):
            (name,) = model.model_fields["type"].annotation
            found[str(name)] = model
    return found


EVENTS = events_by_type()


def without(event, kinds):
    """Return an event without the items of these types, None if it is about one of them."""
    if event.get("item", {}).get("type") in kinds:
        return None
    if "response" not in event:
        return event
    response = event["response"]
    return event | {
        "response": response | {"output": [one for one in response["output"] if one["type"] not in kinds]}
    }


def is_extension(item):
    """Return true for an item that has what the specification demands of an extension."""
    return isinstance(item["id"], str) and item["status"] in (
        "in_progress",
        "completed",
        "incomplete",
        "failed",
    )


def findings(event):
    """Yield what a published type says against an event."""
    item = event.get("item")
    if item is not None and item["type"] in EXTENSIONS and not is_extension(item):
        yield f"no extension: {item}"
    known = without(event, EXTENSIONS)
    if known is not None:
        yield from against(EVENTS, known)
    known = without(event, OURS)
    if known is not None:
        yield from against(OPENAI, known)


def against(models, event):
    """Yield the errors of the model of an event."""
    if event["type"] not in models:
        yield f"no such event: {event['type']}"
        return
    try:
        models[event["type"]].model_validate(event)
    except ValidationError as error:
        for one in error.errors():
            yield f"{'.'.join(map(str, one['loc']))}: {one['msg']}: {one['input']!r}"[:300]


for line in sys.stdin:
    reading = json.loads(line)
    for event in reading["events"]:
        for message in findings(event):
            sys.stdout.write(
                json.dumps({"reading": reading["name"], "type": event["type"], "message": message}) + "\n"
            )
