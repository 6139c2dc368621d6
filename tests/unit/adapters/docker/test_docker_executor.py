"""The docker backend without a daemon: the `docker` command is a script that answers like a daemon."""

import hashlib

import pytest
from msgspec.structs import replace

from stepline.adapters.docker.executor import DockerExecutor
from stepline.adapters.docker.supervisor_protocol import (
    Blob,
    Ended,
    Failed,
    Launch,
    Ready,
    Report,
    Violation,
    decode,
    encode,
)
from stepline.model.program.execution import CollectedFile, Isolation, RunLimits
from stepline.ports.executor import Job
from stepline.programs.frame import FrameReader
from tests.unit.adapters.docker.test_docker_command_line import REQUEST

COMBINED = replace(REQUEST, profile=replace(REQUEST.profile, container_strategy="combined"))
ISOLATION = Isolation(backend="docker", seccomp=True, uid=1001)


@pytest.fixture
def docker(tmp_path):
    """Write a script as the `docker` command; return an executor that uses it."""
    made = []

    def make(text):
        command = tmp_path / "docker"
        command.write_text(f"#!/bin/sh\n{text}\n")
        command.chmod(0o755)
        made.append(DockerExecutor(docker=str(command)))
        return made[-1]

    yield make
    for executor in made:
        executor.close()


@pytest.fixture
def job(tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    return Job(request=REQUEST, batches=(), fetch=bytes, spool=spool)


def supervisor(tmp_path, *messages):
    """Return a script that waits for the launch, sends these messages, and ends with its input."""
    said = tmp_path / "said"
    said.write_bytes(b"".join(map(encode, messages)))
    return f'[ "$1" = run ] || exit 0\nhead -c 4 >/dev/null\ncat {said}\ncat >/dev/null'


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (
            "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "docker_unavailable",
        ),
        ("error during connect: Get http://10.0.0.1/v1.41/info: dial tcp: i/o timeout", "docker_unavailable"),
        (
            "docker: permission denied while trying to connect to the Docker daemon socket",
            "docker_unavailable",
        ),
        ("docker: Error response from daemon: No such image: image:1.", "docker_image_missing"),
        ("Unable to find image 'image:1' locally", "docker_image_missing"),
        ("docker: Error response from daemon: no space left on device.", "sandbox_execution_failed"),
    ],
)
def test_a_container_that_cannot_start_has_a_code_and_the_quoted_reason(docker, job, said, code):
    executor = docker(f'echo "{said}" >&2; echo "See \'docker run --help\'." >&2; exit 125')
    run = executor.run(job)
    assert run.error == code
    assert said.rpartition("/")[2][-20:] in run.message
    assert "--help" not in run.message
    assert run.returncode is None


def test_a_missing_docker_command_is_reported(tmp_path, job):
    executor = DockerExecutor(docker=str(tmp_path / "nothing"))
    run = executor.run(job)
    assert run.error == "docker_unavailable"
    assert "mode process" in run.message


def test_refused_arguments_start_nothing(docker, job, tmp_path):
    executor = docker(f"touch {tmp_path / 'started'}")
    profile = replace(REQUEST.profile, extra_args=("--privileged",))
    run = executor.run(
        Job(request=replace(REQUEST, profile=profile), batches=(), fetch=job.fetch, spool=job.spool)
    )
    assert run.error == "docker_args_refused"
    assert "--privileged" in run.message
    assert not (tmp_path / "started").exists()


def combined(job, limits=REQUEST.limits):
    request = replace(COMBINED, limits=limits)
    return Job(request=request, batches=job.batches, fetch=job.fetch, spool=job.spool)


def test_a_report_becomes_a_run_and_its_bytes_are_in_the_spool(docker, job, tmp_path):
    body = b"a,b\n"
    sha256 = hashlib.sha256(body).hexdigest()
    file = CollectedFile(path="turn_0001/outputs/a.csv", sha256=sha256, size_bytes=4)
    ended = Ended(error="", returncode=0, seconds=1.5, log="hello\n", log_bytes=6)
    report = Report(isolation=ISOLATION, files=(file,))
    said = supervisor(tmp_path, Ready(), ended, report, Blob(data=body[:1], last=False), Blob(data=body[1:]))
    run = docker(said).run(combined(job))
    assert (run.error, run.returncode, run.program_log, run.log_bytes) == ("", 0, "hello\n", 6)
    assert (run.isolation, run.files) == (ISOLATION, (file,))
    assert (job.spool / sha256).read_bytes() == body


def test_bytes_that_do_not_match_their_hash_are_refused(docker, job, tmp_path):
    file = CollectedFile(path="turn_0001/outputs/a.csv", sha256="0" * 64, size_bytes=4)
    ended = Ended(error="", returncode=0, seconds=1.5)
    said = supervisor(
        tmp_path, Ready(), ended, Report(isolation=ISOLATION, files=(file,)), Blob(data=b"abcd")
    )
    assert docker(said).run(combined(job)).error == "collect_failed"


ENDS = [
    (Ended(error="timeout", returncode=-9, seconds=1), Report(isolation=ISOLATION), ("timeout", 124)),
    (
        Ended(error="file_size_limit", returncode=-15, seconds=1),
        Report(isolation=ISOLATION),
        ("file_size_limit", -15),
    ),
    (Ended(error="", returncode=-25, seconds=1), Report(isolation=ISOLATION), ("file_size_limit", -25)),
    (
        Ended(error="", returncode=0, seconds=1),
        Report(isolation=ISOLATION, exceeded="exec_workspace_delta_limit"),
        ("exec_workspace_delta_limit", 0),
    ),
    (
        Ended(error="memory_limit", returncode=-9, seconds=1),
        Report(isolation=ISOLATION),
        ("memory_limit", -9),
    ),
    (Ended(error="", returncode=3, seconds=1), Report(isolation=ISOLATION), ("nonzero_exit", 3)),
    (
        Ended(error="", returncode=0, seconds=1),
        Report(isolation=ISOLATION, error="collect_failed", message="the spool is full"),
        ("collect_failed", 0),
    ),
    (Ended(error="", returncode=126, seconds=1), Report(), ("isolation_failed", 126)),
    (Ended(error="", returncode=1, seconds=1), Report(), ("sandbox_execution_failed", 1)),
]


@pytest.mark.parametrize("end", ENDS, ids=[expected[0] for _, _, expected in ENDS])
def test_every_end_has_its_code(docker, job, tmp_path, end):
    ended, report, expected = end
    run = docker(supervisor(tmp_path, Ready(), ended, report)).run(combined(job))
    assert (run.error, run.returncode) == expected
    assert run.message


def test_a_failure_of_the_supervisor_is_the_error_of_the_run(docker, job, tmp_path):
    said = supervisor(tmp_path, Failed(code="restore_failed", message="turn_0001/outputs/a is gone"))
    run = docker(said).run(combined(job))
    assert (run.error, run.message) == ("restore_failed", "turn_0001/outputs/a is gone")


@pytest.mark.parametrize("message", [Violation(code="x"), Blob(data=b"")], ids=["violation", "blob"])
def test_an_unexpected_message_ends_the_run(docker, job, tmp_path, message):
    run = docker(supervisor(tmp_path, message)).run(combined(job))
    assert run.error == "sandbox_execution_failed"
    assert type(message).__name__ in run.message


def test_nonsense_from_the_supervisor_ends_the_run(docker, job):
    run = docker("printf '\\000\\000\\000\\002hi'; cat >/dev/null").run(combined(job))
    assert run.error == "sandbox_execution_failed"
    assert "nonsense" in run.message


def test_a_supervisor_that_dies_is_reported_with_its_last_output(docker, job):
    run = docker("echo 'no such device' >&2; exit 139").run(combined(job))
    assert run.error == "sandbox_execution_failed"
    assert "SIGSEGV" in run.message
    assert "no such device" in run.message
    assert run.runtime_log == "no such device\n"


def test_the_last_output_is_read_even_after_the_messages_have_ended(docker, job):
    run = docker("exec >&-; for i in 1 2 3 4 5; do /bin/true; done; echo 'no room' >&2; exit 3").run(
        combined(job)
    )
    assert "no room" in run.message
    assert run.runtime_log == "no room\n"


def test_a_late_supervisor_is_given_up(docker, job, tmp_path, monkeypatch):
    monkeypatch.setattr("stepline.adapters.docker.executor.KILL_S", 0.1)
    said = supervisor(tmp_path, Ready())
    run = docker(said).run(combined(job, RunLimits(timeout_s=0)))
    assert run.error == "sandbox_execution_failed"
    assert "in time" in run.message


def test_secrets_go_to_the_supervisors_input_and_to_no_command_line(tmp_path, job):
    command = tmp_path / "docker"
    command.write_text(
        f'#!/bin/sh\n[ "$1" = run ] || exit 0\n(echo "$@"; env) > {tmp_path}/seen\ndd bs=65536 count=1 of={tmp_path}/input 2>/dev/null\n'
    )
    command.chmod(0o755)
    executor = DockerExecutor(
        docker=str(command), descriptors={"secrets": "key: planted-1"}, environment={"AWS_KEY": "planted-2"}
    )
    executor.run(combined(job))
    executor.close()
    assert "planted" not in (tmp_path / "seen").read_text()
    sent = (tmp_path / "input").read_bytes()
    assert b"planted-1" in sent
    assert b"planted-2" in sent


def test_every_message_survives_its_frame():
    for message in (
        Launch(request=REQUEST, strategy="split", token="t", batches=(b"{}",), environment={"A": "b"}),
        Ended(error="", returncode=-9, seconds=0.5),
        Report(isolation=ISOLATION),
        Blob(data=bytes(range(256)), last=False),
    ):
        (body,) = FrameReader().feed(encode(message))
        assert decode(body) == message
