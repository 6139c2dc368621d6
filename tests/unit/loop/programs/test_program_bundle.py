"""The files of the bundle on their way to a program."""

import pytest

from stepline.model.entry import Resulted
from stepline.programs.bundle_files import BUNDLE_MAX_BYTES
from tests.support.bundle_on_disk import BUNDLE, READABLE, bundle_on_disk
from tests.support.generation import answered, coded
from tests.support.task_conversation import PROFILE, TaskConversation, finish


@pytest.fixture
def package():
    with bundle_on_disk() as found:
        yield found


@pytest.fixture
def conversation(tmp_path):
    found = TaskConversation(tmp_path, coded("print('hello')", "totals.csv"), answered("done"))
    found.configure(PROFILE, bundle=BUNDLE)
    return found


def played(conversation, fate):
    conversation.fate = fate
    conversation.send()
    conversation.run()
    return conversation


def test_a_task_is_handed_the_readable_files_of_its_bundle(package, conversation):
    handed = []
    played(conversation, lambda task: handed.append(task.claim()))
    assert [(parcel.request.bundle, parcel.bundle) for parcel in handed] == [(BUNDLE, READABLE)]


def test_a_bundle_that_is_too_large_for_programs_runs_none(package, conversation):
    (package / "model.bin").write_bytes(bytes(BUNDLE_MAX_BYTES))
    played(conversation, finish)
    assert [entry.error["code"] for entry in conversation.entries(Resulted)] == ["bundle_too_large"]
    assert conversation.launched == []
    assert not [key for key in conversation.ports.artifacts.objects if key.startswith("exec/")]
