"""Changes of a stage that is deployed: each choice to another value and back, and the step from an earlier release's templates.

They are simulated on the templates, stack by stack: an export may not go while it is imported, a resource that is replaced may
not meet its own name, and whatever reads its value is updated too.
"""

from itertools import combinations

import pytest

from tests.stacks.deployed_stage import READ, DeployedStage, exports, reduced
from tests.stacks.recorded_stage import RELEASES, recorded
from tests.stacks.stage_choice import BASES, Change, changes, choices
from tests.support.draw import ALL, share

KNOWN = {"sign_in_prefix": "UsersPoolDomain"}
"""Choices that need a step by hand before they change, which docs/how-to/deploy.md#change-it has, and the resource that stops them."""
RICHEST = "dev"
"""The stage with everything that may be taken away: its own users, network, image and page."""
LASTING = ("AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket", "AWS::Cognito::UserPool")
"""What an update never replaces, since its data would be lost."""
SINGLE = list(changes())
DRAWN = share(choices(), 16)
"""Every choice in a nightly; in a landing that draws these tests, some of them."""


def refusals(base, chosen):
    """What stops a change of all these choices there and back; of the halves, if they exclude each other."""
    change = Change(base, tuple(chosen))
    if change.after is None:
        middle = len(chosen) // 2
        return refusals(base, chosen[:middle]) + refusals(base, chosen[middle:]) if middle else []
    stage = DeployedStage(change.before)
    found = [
        f"{change}: {refusal}" for refusal in (*stage.deploy(change.after), *stage.deploy(change.before))
    ]
    if len(chosen) == 1 and chosen[0] in KNOWN:
        assert found == [] or all(KNOWN[chosen[0]] in one for one in found)
        return []
    return found


def shape(documents, of=reduced):
    return {name: of(document) for name, document in documents.items()}


def changed_by(of):
    """The choices that change this of the richest stage's templates."""
    return [
        choice
        for choice in choices()
        if (after := Change(RICHEST, (choice,)).after)
        and shape(after, of) != shape(Change(RICHEST, ()).before, of)
    ]


@pytest.mark.parametrize("base", share(list(BASES), len(BASES)))
@pytest.mark.parametrize("release", RELEASES)
def test_a_stage_of_an_earlier_release_is_deployed_with_these_templates(release, base):
    stage = DeployedStage(recorded(release, base))
    assert stage.deploy(Change(base, ()).before) == []


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("release", RELEASES)
def test_a_stage_of_an_earlier_release_keeps_its_table_its_buckets_and_its_pool(release, base):
    before = recorded(release, base)
    stage = DeployedStage(before)
    stage.deploy(Change(base, ()).before)
    lasting = {
        (name, logical_id)
        for name, document in before.items()
        for logical_id, resource in document["Resources"].items()
        if resource["Type"] in LASTING
    }
    assert len(lasting) >= 2
    assert {stage.stacks[name].generations.get(logical_id) for name, logical_id in lasting} == {0}


@pytest.mark.parametrize("change", share(SINGLE, len(SINGLE) // 3 + 1, everything=False), ids=str)
def test_a_drawn_choice_changes_there_and_back(change):
    assert refusals(change.base, change.choices) == []


def test_every_choice_of_the_richest_stage_changes_there_and_back():
    assert [found for choice in DRAWN for found in refusals(RICHEST, [choice])] == []


@pytest.mark.parametrize("base", [base for base in BASES if base != RICHEST])
def test_every_choice_of_the_other_stages_changes_there_and_back(base):
    """Those that change a name or an export of the richest stage alone, all others at once."""
    alone = changed_by(reduced) if ALL else DRAWN
    others = [choice for choice in choices() if choice not in alone] if ALL else []
    assert [found for choice in alone for found in refusals(base, [choice])] + refusals(base, others) == []


def test_every_two_choices_that_change_an_export_change_together_there_and_back():
    chosen = [choice for choice in (changed_by(exports) if ALL else DRAWN[:4]) if choice not in KNOWN]
    assert not ALL or len(chosen) > 5
    assert [found for pair in combinations(chosen, 2) for found in refusals(RICHEST, pair)] == []


def test_the_simulation_finds_an_export_that_is_imported_a_name_that_is_taken_and_a_value_that_stays():
    def bucket(key, name):
        return {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}} | (
            {"DeletionPolicy": key} if key else {}
        )

    output = {"Value": {"Ref": "A"}, "Export": {"Name": "x-a:E"}}
    reader = {"Type": "AWS::IAM::Role", "Properties": {"Description": {"Fn::ImportValue": "x-a:E"}}}
    first = {"Resources": {"A": bucket("", "one")}, "Outputs": {"E": output}}
    stage = DeployedStage({"a": first, "b": {"Resources": {"R": reader}}})
    without = {"Resources": {"B": bucket("", "one")}}
    found = stage.deploy({"a": without, "b": {"Resources": {}}})
    assert [one.split(",")[0] for one in found] == [
        "a: export x-a:E is imported",
        'a: B takes ["one"',
    ]
    weak = {
        "Type": "AWS::IAM::Role",
        "Properties": {"Description": {READ: {"StackName": "x-a", "OutputName": "E"}}},
    }
    stage = DeployedStage({"a": first, "b": {"Resources": {"R": weak}}})
    (stale,) = stage.deploy(
        {"a": first | {"Resources": {"A": bucket("", "two")}}, "b": {"Resources": {"R": weak}}}
    )
    assert stale == "b: R reads A, which is replaced, and is not updated"
