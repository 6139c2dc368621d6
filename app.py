"""Synthesise Stepline: `cdk deploy --all` for stage `dev`, `-c stage=NAME` for another one."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk

from stacks.bytecode import find_python, render_missing
from stacks.code import Code, read_packages
from stacks.deployment import Deployment
from stacks.stage import Stage

ROOT = Path(__file__).resolve().parent


def main() -> None:
    app = cdk.App()
    stage = Stage.from_context(app.node)
    compiler = None if stage.is_local or not stage.bytecode else find_python(stage.python)
    code = _local_code(app) if stage.is_local else Code.for_aws(ROOT, version=stage.python, compiler=compiler)
    deployment = Deployment(
        app, stage, code=code, packages=read_packages(ROOT / "exec_task/requirements.txt")
    )
    if stage.bytecode and not (stage.is_local or compiler):
        warning = render_missing(stage.python)
        cdk.Annotations.of(deployment.ingress).add_warning_v2("stepline:bytecode", warning)
    if app.node.try_get_context("nag") == "true":
        from stacks.review import check  # noqa: PLC0415 - the rules are a developer's, and take a second

        check(app)
    app.synth()


def _local_code(app: cdk.App) -> Code:
    bundle = app.node.try_get_context("bundle_code")
    return Code.for_emulator(ROOT, ROOT / ".stepline/code", bundle=Path(bundle) if bundle else None)


if __name__ == "__main__":
    main()
