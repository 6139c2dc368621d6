"""A release in mid-stream: the same code as a new version, live while an answer streams, and the old version again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from stepline.local.cloud.former_versions import LIVE
from stepline.local.proof.judge_stream import judge_ends
from stepline.local.proof.proof_row import Evidence
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.account_rows import ask
from stepline.local.proof.row.midturn_rows import ENDED, begin_long, finish
from stepline.local.proof.stage_function import functions_by_module

RELEASED: Final = ("decide", "close")
"""The functions of which a turn calls both, and one in each round."""
RUNNING: Final = "in_progress"
DESCRIPTION: Final = "stepline prove"
NEEDED: Final = "lambda:GetAlias, UpdateAlias, UpdateFunctionConfiguration, PublishVersion and DeleteFunction"
SAME: Final = ("CodeSha256", "Environment", "MemorySize", "Timeout", "Runtime")
"""What a function's newest code must have in common with the version that serves: only then it may go live."""


class Release(NamedTuple):
    """A new version of a function with the code that serves, and the version that serves."""

    function: str
    before: str
    after: str


def prove_upgrade(stage: ProvedStage, conversation: str) -> Evidence:
    """Release in mid-stream, ask again, return to the version before, and ask once more."""
    client, names = stage.aws("lambda"), functions_by_module(stage)
    missing = [module for module in RELEASED if module not in names]
    if missing:
        raise NotRunError(f"the account has no function {missing[0]} of the stage")
    with ExitStack() as published:
        releases = [published.enter_context(publish_again(client, names[module])) for module in RELEASED]
        with ExitStack() as aliases, stage.listen(conversation) as listener:
            begin_long(listener)
            for release in releases:
                aliases.enter_context(go_live(client, release))
            check_turn_runs(stage, conversation)
            finish(stage, conversation, listener)
            judge_ends(listener.ends)
            ask(stage, conversation, turns=2)
        ask(stage, conversation, turns=3)
    versions = {one.function: f"{one.before} to {one.after} and back" for one in releases}
    return {"turn": listener.ends[-1].turn_id, **versions}


def check_turn_runs(stage: ProvedStage, conversation: str) -> None:
    """Raise NotRunError if the turn ended before the release was live."""
    if stage.api.read_conversation(conversation).state != RUNNING:
        raise NotRunError(ENDED)


@contextmanager
def publish_again(client: Any, function: str) -> Iterator[Release]:
    """Yield a new version of the code that serves; it is deleted afterwards. Its alias is not moved.

    Raises NotRunError if other code than the newest serves: after a rollback, or during a release by parts.
    """
    alias = client.get_alias(FunctionName=function, Name=LIVE)
    before = str(alias["FunctionVersion"])
    newest = client.get_function_configuration(FunctionName=function)
    serving = client.get_function_configuration(FunctionName=function, Qualifier=LIVE)
    if alias.get("RoutingConfig", {}).get("AdditionalVersionWeights") or any(
        newest.get(name) != serving.get(name) for name in SAME
    ):
        raise NotRunError(
            f"the newest code of {function} is not what serves: a release or a rollback is under way"
        )
    after = ""
    try:
        _describe(client, function, DESCRIPTION)
        after = str(client.publish_version(FunctionName=function)["Version"])
        if after == before:
            raise NotRunError(f"{function} got no new version")
        client.get_waiter("published_version_active").wait(FunctionName=function, Qualifier=after)
        yield Release(function, before, after)
    finally:
        _describe(client, function, newest.get("Description", ""))
        if after not in ("", before):
            client.delete_function(FunctionName=function, Qualifier=after)


@contextmanager
def go_live(client: Any, release: Release) -> Iterator[None]:
    """Let the new version serve, and afterwards the one before, whatever happens inside."""
    try:
        client.update_alias(FunctionName=release.function, Name=LIVE, FunctionVersion=release.after)
        yield
    finally:
        client.update_alias(FunctionName=release.function, Name=LIVE, FunctionVersion=release.before)


def _describe(client: Any, function: str, text: str) -> None:
    client.update_function_configuration(FunctionName=function, Description=text)
    client.get_waiter("function_updated").wait(FunctionName=function)
