"""Synthesise Stepline: `cdk deploy --all` for stage `dev`, `-c stage=NAME` for another one."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk

from stacks.code import Code, read_packages
from stacks.deployment import Deployment
from stacks.stage import Stage

ROOT = Path(__file__).resolve().parent


def main() -> None:
    app = cdk.App()
    stage = Stage.from_context(app.node)
    code = _local_code(app) if stage.is_local else Code.for_aws(ROOT)
    Deployment(app, stage, code=code, packages=read_packages(ROOT / "exec_task/requirements.txt"))
    if app.node.try_get_context("nag") == "true":
        from stacks.review import check  # noqa: PLC0415 - the rules are a developer's, and take a second

        check(app)
    app.synth()


def _local_code(app: cdk.App) -> Code:
    bundle = app.node.try_get_context("bundle_code")
    return Code.for_emulator(ROOT, ROOT / ".stepline/code", bundle=Path(bundle) if bundle else None)


if __name__ == "__main__":
    main()
