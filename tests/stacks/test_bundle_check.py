"""The CDK app refuses a bundle of which deployed functions would leave a part out, before anything is built."""

import json
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest

import app

ROOT = Path(__file__).parents[2]
BUNDLE = """
from stepline import BaseWorkflow


class Own(BaseWorkflow):
    async def process(self, payload):
        return None


WORKFLOW = Own
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BUNDLE, "bundle_not_deployable: own_shop cannot be deployed: Own.process is overridden"),
        ("import no_such_package\n", "requirement_missing: own_shop"),
    ],
)
@pytest.mark.parametrize("chosen", [{"bundle": "own_shop"}, {"bundles": '{"shop": "own_shop"}'}])
def test_a_bundle_that_cannot_be_deployed_ends_the_synthesis(
    chosen: dict[str, str], text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_shop.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_shop", raising=False)
    asked = cdk.App(outdir=str(tmp_path / "cdk.out"), context={"stage": "dev", **chosen})
    with pytest.raises(SystemExit) as ended:
        app.main(asked)
    assert str(ended.value).startswith(f"error: {said}")


def test_the_command_of_the_app_fails_with_the_error_on_its_last_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One process for all of them: each loads the CDK, which takes longer than the check."""
    monkeypatch.setenv("CDK_CONTEXT_JSON", json.dumps({"stage": "dev", "bundle": "no_such_bundle"}))
    done = subprocess.run([sys.executable, "app.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: bundle_not_found: ")
