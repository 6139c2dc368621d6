"""Synthesise Stepline: `cdk deploy --all` for stage `dev`, `-c stage=NAME` for another one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import aws_cdk as cdk

from stepline.bundle.deployable import load_deployable
from stepline.errors import InputError, SteplineError
from stepline_cdk.app_root import app_root
from stepline_cdk.bytecode import find_python, render_missing
from stepline_cdk.choice.read import BadChoiceError
from stepline_cdk.choice.sources import DERIVED, STAGES, read_stage
from stepline_cdk.code import Code, read_packages
from stepline_cdk.deployment import Deployment
from stepline_cdk.function_code import make_code
from stepline_cdk.page_files import PageFiles, read_page
from stepline_cdk.stage import Stage


def main(app: cdk.App) -> None:
    """Synthesise the stage that the app's context chooses; end with an error if it cannot be deployed."""
    stage = _stage(app)
    if not stage.is_local:  # `stepline up` has checked that of a local stage, whose code is in another folder
        for bundle in stage.modules:
            _check(bundle)
    files = _page(app, stage) if stage.page else None
    compiler = None if stage.is_local or not stage.bytecode else find_python(stage.python)
    code = _local_code(app) if stage.is_local else _code(stage, compiler)
    packages = read_packages(app_root() / "exec_task/requirements.txt")
    derived = str(app.node.try_get_context(DERIVED) or "").split(",")
    try:
        deployment = Deployment(app, stage, code=code, packages=packages, files=files, derived=derived)
    except InputError as error:
        sys.exit(f"error: {error.reason}: {error}")
    if stage.bytecode and not (stage.is_local or compiler):
        warning = render_missing(stage.python)
        cdk.Annotations.of(deployment.ingress.scope).add_warning_v2("stepline:bytecode", warning)
    if app.node.try_get_context("nag") == "true":
        from stepline_cdk.review import check  # noqa: PLC0415 - the rules are a developer's, and take a second

        check(app, stage.python)
    app.synth()


def _stage(app: cdk.App) -> Stage:
    """Return the chosen stage, by the files of the folder `stages_folder` if they are elsewhere; end the synthesis if a choice is wrong."""
    folder = app.node.try_get_context("stages_folder")
    try:
        return read_stage(
            app.node.get_all_context(),
            environ=os.environ,  # noqa: TID251 - choices of a deployment, not settings of a process
            folder=Path(folder) if folder else app_root() / STAGES,
        ).stage
    except BadChoiceError as error:
        sys.exit(f"error: {error.reason}: {error}")


def _check(bundle: str) -> None:
    """End the synthesis if the functions could not run all of a bundle."""
    try:
        load_deployable(bundle)
    except InputError as error:
        sys.exit(f"error: {error.reason}: {error}")
    except ImportError as error:
        sys.exit(
            f"error: requirement_missing: {bundle} is loaded here, too, and {error}: install its requirements"
        )


def _code(stage: Stage, compiler: Path | None) -> Code:
    """Return the functions' code; end the synthesis if the packages of its bundles cannot be a layer of it."""
    try:
        return make_code(app_root(), stage, compiler)
    except SteplineError as error:
        sys.exit(f"error: {error.reason}: {error}")


def _page(app: cdk.App, stage: Stage) -> PageFiles:
    """Return the chat page, of the folder `page_folder` if it is built elsewhere; end the synthesis if it is not built."""
    folder = app.node.try_get_context("page_folder")
    try:
        return read_page(app_root(), stage.named_modules, dist=Path(folder) if folder else None)
    except SteplineError as error:
        sys.exit(f"error: {error.reason}: {error}")


def _local_code(app: cdk.App) -> Code:
    bundle = app.node.try_get_context("bundle_code")
    return Code.for_emulator(
        app_root(), app_root() / ".stepline/code", bundle=Path(bundle) if bundle else None
    )


if __name__ == "__main__":
    main(cdk.App())
