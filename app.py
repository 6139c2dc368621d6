"""Synthesise Stepline: `cdk deploy --all` for stage `dev`, `-c stage=NAME` for another one."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk

from stacks.code import Code, read_packages
from stacks.runtime import RuntimeStack
from stacks.stage import Stage
from stacks.state import StateStack

ROOT = Path(__file__).resolve().parent


def main() -> None:
    app = cdk.App()
    stage = Stage.from_context(app.node)
    code = Code.for_emulator(ROOT, ROOT / ".stepline/code") if stage.is_local else Code.for_aws(ROOT)
    state = StateStack(app, stage)
    packages = read_packages(ROOT / "exec_task/requirements.txt")
    RuntimeStack(app, stage, state=state, code=code, packages=packages)
    app.synth()


if __name__ == "__main__":
    main()
