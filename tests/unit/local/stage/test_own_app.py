"""The app of the caller's whose agent the local stage runs: which one, and where its outputs are."""

import json

import pytest

from stepline.errors import InputError
from stepline.local.stage.cdk import deploy_to_emulator
from stepline.local.stage.deployed import LocalStage
from stepline.local.stage.own_app import OwnApp, digest_assembly, find_agent, take_app


def write(folder, artifacts):
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))


def stack(folder, name, path, outputs):
    """Write the template of a stack, and return its artifact."""
    template = {"Resources": {}, "Outputs": {key: {"Value": value} for key, value in outputs.items()}}
    (folder / f"{name}.json").write_text(json.dumps(template))
    properties = {"templateFile": f"{name}.json", "stackName": name}
    return {"type": "aws:cloudformation:stack", "properties": properties, "displayName": path}


@pytest.fixture
def assembly(tmp_path):
    """Two agents, one of them, in an assembly within, for the local stage."""
    inner = tmp_path / "assembly-Beta"
    inner.mkdir()
    own = {"DeskBundle": "shop.agent", "DeskSteplineAgent": "local", "OtherSteplineAgent": "agent-1"}
    write(inner, {"Shop1": stack(inner, "Beta-Shop", "Beta/Shop", own)})
    write(
        tmp_path,
        {
            "assembly-Beta": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-Beta"}},
            "Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}},
            "Base": stack(tmp_path, "Base", "Base", {"SteplineAgent": "agent-2"}),
        },
    )
    return tmp_path


def test_the_agent_for_the_local_stage_is_found_by_its_output(assembly):
    found = find_agent(assembly, OwnApp(folder="shop"))
    assert (found.stack.path, found.stack.name, found.prefix) == ("Beta/Shop", "Beta-Shop", "Desk")
    assert found.module == "shop.agent"


@pytest.mark.parametrize(
    ("asked", "said"), [("", "a construct stepline_cdk.Agent"), ("Shop/Other", "no agent Shop/Other")]
)
def test_an_app_without_it_is_refused(tmp_path, asked, said):
    write(tmp_path, {"Base": stack(tmp_path, "Base", "Base", {"SteplineAgent": "agent-2"})})
    with pytest.raises(InputError, match=said) as refused:
        find_agent(tmp_path, OwnApp(folder="shop", agent=asked))
    assert refused.value.reason == "agent_not_found"


def test_a_changed_template_anywhere_changes_the_digest(assembly):
    before = digest_assembly(assembly)
    assert digest_assembly(assembly) == before
    inner = assembly / "assembly-Beta"
    write(inner, {"Shop1": stack(inner, "Beta-Shop", "Beta/Shop", {"DeskSteplineAgent": "local"})})
    assert digest_assembly(assembly) != before


def test_a_stage_with_another_app_is_not_replaced(tmp_path):
    known = LocalStage("http://127.0.0.1:1", "", "", "", "", "", "", "", app="/shop", home=str(tmp_path))
    chosen = {"endpoint": "", "issuer_url": "", "pages": [""], "model_url": ""}
    for app in (None, OwnApp(folder="/kiosk")):
        with pytest.raises(InputError, match="has the app of /shop: set STEPLINE_HOME") as refused:
            deploy_to_emulator(tmp_path, **chosen, chosen={}, known=known, progress=print, app=app)
        assert refused.value.reason == "other_app"


@pytest.mark.parametrize("text", [None, "{}", '{"context": {}}'])
def test_a_folder_without_an_app_is_refused(tmp_path, text):
    if text:
        (tmp_path / "cdk.json").write_text(text)
    with pytest.raises(InputError, match=r"has no cdk\.json that names an app") as refused:
        take_app(tmp_path)
    assert refused.value.reason == "app_not_found"
