"""Files of a payload: checked and stored as uploads are, before the message of a bundle's turn is in the log."""

import asyncio
import base64
import hashlib
from dataclasses import replace

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import MemoryModelClient
from stepline.adapters.memory.upload.quarantine import MemoryScanner
from stepline.errors import InputError, LimitError, NotFoundError
from stepline.model.entry import Inbound
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, ATTACHMENTS_MAX, Attachment, attachment_key
from stepline.model.tenancy.limits import Limits, ScopeLimits
from tests.contract.workflow_processes import WorkflowProcesses
from tests.support.generation import answered

TABLE = b"a,b\n1,2\n"
LATIN = "Preço;Notiz\r\n12,50 €;„gut“ ok…\r\n".encode("cp1252")


@pytest.fixture
def processes(backend, lane):
    return WorkflowProcesses(backend, lane)


def stored(processes, data):
    key = attachment_key(processes.lane, hashlib.sha256(data).hexdigest())
    return processes.app.ports.artifacts.get(key) if processes.app.ports.artifacts.size(key) else None


def test_a_payload_has_files_as_bytes_as_base64_and_by_path(processes, tmp_path):
    (tmp_path / "latin.csv").write_bytes(LATIN)
    given = [
        {"filename": "a.csv", "mime": "Text/CSV; header=present", "data": TABLE},
        {"filename": "b.json", "base64": base64.b64encode(b"{}").decode()},
        tmp_path / "latin.csv",
        {"filename": "again.csv", "path": tmp_path / "latin.csv"},
    ]
    model = MemoryModelClient(answered("Seen."))
    assert processes.ask(processes.process(model), attachments=given).answer == "Seen."
    (event,) = processes.entries(Inbound)
    latin = "text/csv; charset=windows-1252"
    assert [(file.filename, file.mime) for file in event.attachments] == [
        ("a.csv", "text/csv"),
        ("b.json", "application/json"),
        ("latin.csv", latin),
        ("again.csv", latin),
    ]
    assert (stored(processes, TABLE), stored(processes, LATIN)) == (TABLE, LATIN)
    assert "[USER ATTACHMENT] a.csv | text/csv | 8 bytes" in model.requests[0].content[0].text


def test_the_content_of_a_file_is_at_its_path(processes):
    runtime = processes.process(MemoryModelClient(answered("One.")))
    turn = processes.ask(runtime, attachments=[{"filename": "a.csv", "data": TABLE}]).turn_id
    client = WORKFLOW(runtime, processes.lane, user="ada").ctx_client
    (fetched,) = asyncio.run(client.fetch_ctx([f"fi:{turn}.user.attachments/a.csv"]))
    assert fetched["ret"]["text"] == TABLE.decode()


def test_a_message_may_have_files_and_no_text(processes):
    runtime = processes.process(MemoryModelClient(answered("Seen.")))
    assert processes.ask(runtime, "", attachments=[{"filename": "a.csv", "data": TABLE}]).answer == "Seen."


def test_a_message_with_files_that_is_sent_again_gets_its_answer(processes):
    runtime = processes.process(MemoryModelClient(answered("Once.")))
    said = {"message_id": "m-1", "attachments": [{"filename": "a.csv", "data": TABLE}]}
    assert processes.ask(runtime, **said) == processes.ask(runtime, **said)
    assert len(processes.entries(Inbound)) == 1


def test_an_event_of_a_workflow_has_files_too(processes):
    runtime = processes.process(MemoryModelClient(answered("Hello.")))
    processes.ask(runtime)
    reference = Attachment(
        filename="a.csv", mime="text/csv", size_bytes=len(TABLE), sha256=hashlib.sha256(TABLE).hexdigest()
    )
    workflow = WORKFLOW(runtime, processes.lane, user="ada")
    files = [{"filename": "a.csv", "data": TABLE}, reference]
    asyncio.run(workflow.submit_event("shop_closed", {"until": "Monday"}, attachments=files))
    assert processes.entries(Inbound)[-1].attachments == (reference, reference)


@pytest.mark.parametrize(
    ("file", "kind", "code"),
    [
        ({"filename": "a.exe", "data": b"MZ"}, InputError, "type_not_allowed"),
        ({"filename": "a.zip", "data": b"PK\3\4"}, InputError, "type_not_allowed"),
        (
            {"filename": "a.pdf", "mime": "image/png", "data": b"%PDF-1.7"},
            InputError,
            "content_type_mismatch",
        ),
        ({"filename": "a.csv", "data": b""}, InputError, "empty"),
        ({"filename": "a\nb.csv", "data": TABLE}, InputError, "bad_attachment"),
        ({"filename": "a.png", "data": bytes(5 * 1024 * 1024 + 1)}, LimitError, "size_limit"),
        ({"filename": "a.csv", "data": bytes(ATTACHMENT_MAX_BYTES + 1)}, LimitError, "size_limit"),
        ({"filename": "a.csv", "base64": "not base64!"}, InputError, "bad_attachment"),
        ({"filename": "a.csv", "path": "/etc/hostname"}, InputError, "bad_attachment"),
        ({"filename": "a.csv", "data": TABLE, "base64": "e30="}, InputError, "bad_attachment"),
        ({"filename": "a.csv"}, InputError, "bad_attachment"),
        ("/etc/hostname", InputError, "bad_attachment"),
    ],
)
def test_a_file_that_an_upload_could_not_be_is_refused_with_the_same_code(processes, file, kind, code):
    given = [{"filename": "b.csv", "data": b"good,one\n"}, file]
    with pytest.raises(kind) as caught:
        processes.ask(processes.process(MemoryModelClient()), attachments=given)
    assert caught.value.reason == code
    assert processes.app.ports.log.tail(processes.lane) is None
    assert stored(processes, b"good,one\n") is None


@pytest.mark.parametrize(
    ("name", "data", "verdict", "reasons"),
    [
        ("a.pdf", b"no head of a document", "preflight_rejected", ["content_type_mismatch"]),
        ("a.csv", b"a,b\0\1\n", "preflight_rejected", ["text_binary"]),
        ("a.png", b"\x89PNG\r\n\x1a\nthen no picture", "preflight_rejected", ["image_unreadable"]),
    ],
)
def test_a_file_is_refused_by_its_bytes_with_the_reasons_of_an_upload(
    processes, name, data, verdict, reasons
):
    with pytest.raises(InputError) as caught:
        processes.ask(processes.process(MemoryModelClient()), attachments=[{"filename": name, "data": data}])
    assert caught.value.reason == "attachment_rejected"
    assert caught.value.context == {"verdict": verdict, "reasons": reasons}
    assert processes.app.ports.log.tail(processes.lane) is None
    assert stored(processes, data) is None


@pytest.mark.parametrize(("finding", "verdict"), [("infected", "malware"), ("unknown", "av_unavailable")])
def test_a_file_that_the_scanner_does_not_call_clean_is_refused(processes, finding, verdict):
    runtime = processes.process(MemoryModelClient())
    runtime.file_checks = replace(runtime.file_checks, scanner=MemoryScanner(finding))
    with pytest.raises(InputError) as caught:
        processes.ask(runtime, attachments=[{"filename": "a.csv", "data": TABLE}])
    assert (caught.value.reason, caught.value.context["verdict"]) == ("attachment_rejected", verdict)


def test_the_files_of_a_message_are_bounded_in_number_and_together(processes, tmp_path):
    runtime = processes.process(MemoryModelClient())
    many = [{"filename": f"{n}.csv", "data": TABLE} for n in range(ATTACHMENTS_MAX + 1)]
    large = [{"filename": f"{n}.txt", "data": b"a" * 9 * 1024 * 1024} for n in range(3)]
    for given, code in ((many, "too_many_attachments"), (large, "message_size_limit")):
        with pytest.raises(LimitError) as caught:
            processes.ask(runtime, attachments=given)
        assert caught.value.reason == code
    for given, code in (([tmp_path / "gone.csv"], "file_unreadable"), ({"data": b""}, "bad_attachment")):
        with pytest.raises(InputError) as caught:
            processes.ask(runtime, attachments=given)
        assert caught.value.reason == code


def test_the_files_of_a_message_count_towards_the_storage_of_its_user(processes):
    limits = ScopeLimits(user=Limits(storage_bytes=len(TABLE)))
    policy = replace(processes.app.ports.policy, limits=limits)
    processes.app = replace(processes.app, ports=replace(processes.app.ports, policy=policy))
    user = processes.lane.conversation  # without files of other tests
    runtime = processes.process(MemoryModelClient(answered("Seen.")))
    with pytest.raises(LimitError) as caught:
        processes.ask(runtime, user=user, attachments=[{"filename": "a.csv", "data": TABLE + b"3,4\n"}])
    assert caught.value.reason == "limit_storage"
    assert (
        processes.ask(runtime, user=user, attachments=[{"filename": "a.csv", "data": TABLE}]).answer
        == "Seen."
    )


def test_in_the_conversation_of_another_user_no_file_is_stored(processes):
    runtime = processes.process(MemoryModelClient(answered("Hello.")))
    processes.ask(runtime)
    with pytest.raises(NotFoundError):
        processes.ask(runtime, user="eve", attachments=[{"filename": "a.csv", "data": TABLE}])
    assert stored(processes, TABLE) is None
