"""Answer `stepline deploy`: the choices of a stage, and what they change of those it was deployed with.

`python -m stepline_cdk.choice QUESTION`, both JSON. The library may not import the app's modules, so they run in a process of their own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepline_cdk.app_root import app_root
from stepline_cdk.choice.read import BadChoiceError, choice_name
from stepline_cdk.choice.record import compare
from stepline_cdk.choice.sources import STAGE, read_stage


def answer(question: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer: `values` of all choices as text, the names that are `named`, and `changes`.

    The question has the `stage`, the `choices` of the command line, the `folder` of stages' files, and the `record` of the
    deployed stage, if there is one. A wrong choice is the answer `refused` with its sentence.
    """
    context = json.loads((app_root() / "cdk.json").read_text(encoding="utf-8")).get("context", {})
    try:
        given = read_stage(
            {**context, **question["choices"], STAGE: question["stage"]},
            environ=environ,
            folder=Path(question["folder"]),
        )
    except BadChoiceError as error:
        return {"refused": str(error)}
    return {
        "values": given.texts(),
        "named": [choice_name(name) for name in given.named],
        "changes": [change._asdict() for change in compare(given, question["record"])]
        if question["record"]
        else [],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.loads(sys.argv[1]), os.environ)))  # noqa: TID251 - choices of a deployment
