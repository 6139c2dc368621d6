"""The code of a stage whose layers are empty folders: what is in them is tests/stacks/test_layer.py's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stepline_cdk.code import ACTING, Code
from stepline_cdk.stage import Stage

ROOT: Final = Path(__file__).parents[2]


def code_of(stage: Stage, folder: Path) -> Code:
    """Return the code of a stage, with its layers in `folder`."""
    if stage.is_local:
        return Code.for_emulator(ROOT, folder / "code")
    for name in ("deps", *ACTING):
        (folder / name / "python").mkdir(parents=True)
    acting = tuple(folder / name for name in ACTING)
    return Code.for_aws(ROOT, version=stage.python, deps=folder / "deps", acting=acting)
