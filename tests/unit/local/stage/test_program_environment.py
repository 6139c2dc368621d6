import io
import platform
import tarfile

import pytest

from stepline.errors import DependencyError, InputError
from stepline.local.stage import program_image as exec_image
from stepline.local.stage.deployed import HOME, make_home
from stepline.local.stage.program_environment import MODE_VARIABLE, backends, docker_variables, main, prepare
from stepline.local.stage.program_image import (
    BASE_VARIABLE,
    add_bundle,
    build_image,
    find_image,
    image_name,
)

NO_DAEMON = "echo 'Cannot connect to the Docker daemon. Is the docker daemon running?' >&2; exit 1"
NO_IMAGE = "echo 'Error: No such image: x' >&2; exit 1"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in (MODE_VARIABLE, BASE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return make_home(tmp_path / "home")


@pytest.fixture
def docker(tmp_path, monkeypatch, installs):
    """Put a `docker` command with this script before any other."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(text):
        command = folder / "docker"
        command.write_text(f"#!/bin/sh\n{text}\n")
        command.chmod(0o755)

    return make


@pytest.fixture
def installed(home):
    """Use the installed packages as those of programs."""
    if platform.system() != "Linux" or not (HOME / "exec-env/.lock.sha256").exists():
        pytest.skip("needs the packages of programs: make exec-env")
    (home / "exec-env").symlink_to(HOME / "exec-env")
    return home


def silent(_):
    pass


def test_the_image_is_named_for_everything_it_is_made_of(tmp_path, monkeypatch):
    monkeypatch.delenv(BASE_VARIABLE, raising=False)
    for source in exec_image.SOURCES:
        path = tmp_path / source
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1")
        else:
            path.mkdir(parents=True)
            (path / "a.py").write_text("1")
    name = image_name(tmp_path)
    for beside in (
        "exec_task/__pycache__/a.pyc",
        "layers/runtime/python/stepline/local/b.py",
        exec_image.CERTIFICATES,
    ):
        (tmp_path / beside).parent.mkdir(exist_ok=True)
        (tmp_path / beside).write_text("2")
        assert image_name(tmp_path) == name
    (tmp_path / "layers/runtime/python/stepline/a.py").write_text("2")
    changed = image_name(tmp_path)
    assert changed != name
    monkeypatch.setenv(BASE_VARIABLE, "other:1")
    assert image_name(tmp_path) not in (name, changed)


def test_an_existing_image_can_be_used(docker):
    docker("echo sha256:1")
    assert find_image("image:1") == ""


def test_a_missing_image_is_distinguished_from_a_missing_daemon(docker):
    docker(NO_IMAGE)
    assert find_image("image:1") == "image:1 is not built"
    docker(NO_DAEMON)
    with pytest.raises(DependencyError) as refused:
        find_image("image:1")
    assert refused.value.reason == "docker_unavailable"


def test_no_docker_command_is_no_docker(docker, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependencyError) as refused:
        find_image("image:1")
    assert refused.value.reason == "docker_unavailable"


def test_a_build_is_given_the_index_and_the_certificates_of_this_machine_as_a_stream(
    docker, home, tmp_path, monkeypatch
):
    (tmp_path / "pip.conf").write_text(
        "[global]\nextra-index-url = file:///somewhere https://more.example/simple\n"
    )
    (tmp_path / "ca.pem").write_text("own certificates")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv(BASE_VARIABLE, "base:1")
    docker(f'[ "$1" = build ] || exit 0\necho "$@" > {tmp_path}/arguments\ncat > {tmp_path}/context')
    build_image("image:1", home, silent)
    arguments = (tmp_path / "arguments").read_text()
    assert "--tag image:1" in arguments
    assert "BASE=base:1" in arguments
    assert "PIP_INDEX_URL=https://index.example/simple" in arguments
    assert "PIP_EXTRA_INDEX_URL=https://more.example/simple" in arguments
    assert "file:" not in arguments
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "context").read_bytes())) as archive:
        names = archive.getnames()
        certificates = archive.extractfile(exec_image.CERTIFICATES)
        assert certificates is not None
        assert certificates.read() == b"own certificates"
    assert {"exec_task/Dockerfile", "exec_task/executor/main.py", "layers/deps/requirements.txt"} <= set(
        names
    )
    assert not [name for name in names if "/local/" in name or "__pycache__" in name]


def test_the_packages_of_a_bundle_are_installed_beside_those_of_the_supervisor(docker, tmp_path, monkeypatch):
    (tmp_path / "copy/shop").mkdir(parents=True)
    (tmp_path / "copy/shop/requirements.txt").write_text("prices==1.0\n")
    (tmp_path / "ca.pem").write_text("own certificates")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "ca.pem"))
    docker(
        f'[ "$1" = image ] && {{ {NO_IMAGE}; }}\n[ "$1" = build ] || exit 0\necho "$@" > {tmp_path}/arguments\ncat > {tmp_path}/context'
    )

    def context(*requirements):
        add_bundle("image:1", tmp_path / "copy", silent, requirements=requirements)
        with tarfile.open(fileobj=io.BytesIO((tmp_path / "context").read_bytes())) as archive:
            return {name: archive.extractfile(name).read().decode() for name in archive.getnames()}

    plain = context()
    assert plain["Dockerfile"] == "FROM image:1\nCOPY bundle /opt/stepline/\n"
    made = context("shop/requirements.txt")
    assert made["bundle/shop/requirements.txt"] == "prices==1.0\n"
    assert made["certificates.pem"] == "own certificates"
    assert (
        "--constraint installed.txt --requirement /opt/stepline/shop/requirements.txt" in made["Dockerfile"]
    )
    assert "--build-arg PIP_INDEX_URL=https://index.example/simple" in (tmp_path / "arguments").read_text()


def test_a_daemon_without_a_bridge_builds_on_the_hosts_network(docker, home, tmp_path):
    docker(
        f'[ "$1" = network ] && exit 1\n[ "$1" = build ] && echo "$@" > {tmp_path}/arguments\ncat >/dev/null'
    )
    build_image("image:1", home, silent)
    assert "--network host" in (tmp_path / "arguments").read_text()


def test_a_build_removes_no_image_for_another_stage_may_run_on_it(docker, home, tmp_path):
    docker(
        f'echo "$@" >> {tmp_path}/calls\n[ "$1 $2" = "image ls" ] && echo "stepline-exec:old image:1"\n'
        '[ "$1" = build ] && cat >/dev/null\nexit 0'
    )
    build_image("image:1", home, silent)
    assert " rm" not in (tmp_path / "calls").read_text()


def test_a_failed_build_says_where_its_log_is(docker, home):
    docker('[ "$1" = build ] || exit 0\ncat >/dev/null; echo one; echo "no such base"; exit 1')
    with pytest.raises(DependencyError) as refused:
        build_image("image:1", home, silent)
    assert refused.value.reason == "local_image"
    assert "no such base" in str(refused.value)
    assert "no such base" in (home / "image.log").read_text()


def test_a_mode_that_does_not_exist_is_refused(home, monkeypatch):
    monkeypatch.setenv(MODE_VARIABLE, "moon")
    with pytest.raises(InputError):
        prepare(home, silent)


def test_mode_none_builds_nothing(home, monkeypatch):
    monkeypatch.setenv(MODE_VARIABLE, "none")
    found = prepare(home, silent)
    assert found.pop("exec_tasks") == "false"
    assert found == {"exec_mode": "none", "exec_image": "", "exec_python": "", "exec_home": ""}
    assert not list(home.iterdir())


def test_docker_is_chosen_where_a_daemon_has_the_image(docker, installed, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere/docker.sock")
    docker("exit 0")
    found = prepare(installed, silent)
    assert found["exec_mode"] == "docker"
    assert found["exec_image"] == image_name()
    # A profile may still choose another one.
    assert found["exec_tasks"] == str(platform.system() == "Linux").lower()
    assert found["exec_python"] == str(installed / "exec-env/bin/python")


def test_without_a_daemon_programs_run_in_processes(docker, installed):
    docker(NO_DAEMON)
    found = prepare(installed, silent)
    assert (found["exec_mode"], found["exec_image"], found["exec_tasks"]) == ("process", "", "false")
    assert (installed / "exec-env/bin/python").exists()
    assert found["exec_home"].endswith("exec_task")


def test_an_unavailable_requested_mode_is_an_error_with_a_remedy(docker, installed, monkeypatch):
    docker(NO_DAEMON)
    monkeypatch.setenv(MODE_VARIABLE, "docker")
    with pytest.raises(DependencyError, match="start a Docker daemon"):
        prepare(installed, silent)


def test_a_build_that_failed_is_not_tried_at_every_start(docker, installed, tmp_path):
    docker(
        f'case "$1 $2" in "image inspect") {NO_IMAGE};; build*) cat >/dev/null; echo x >> {tmp_path}/tries; exit 1;; esac'
    )
    progress = []
    for _ in range(3):
        assert prepare(installed, progress.append)["exec_mode"] == "process"
    assert (tmp_path / "tries").read_text() == "x\n"
    assert (
        len(
            [
                text
                for text in progress
                if text.startswith("programs run in mode process: docker build failed")
            ]
        )
        == 1
    )
    docker_backend = backends(installed)[0]
    assert "could not be built" in docker_backend.obstacle
    assert "make image" in docker_backend.remedy


@pytest.mark.parametrize(
    "words",
    [
        'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
        "pull access denied for base, repository does not exist or may require 'docker login'",
        "ERROR: failed to solve: base:1: failed to resolve source metadata for docker.io/library/base:1: dial tcp",
    ],
)
def test_a_daemon_without_the_base_image_is_one_sentence_with_the_mode_of_programs(
    docker, installed, monkeypatch, words
):
    monkeypatch.setenv(BASE_VARIABLE, "base:1")
    docker(
        f'case "$1 $2" in "image inspect") {NO_IMAGE};; build*) cat >/dev/null; cat <<"END"\n{words}\nEND\nexit 1;; esac'
    )
    progress = []
    assert prepare(installed, progress.append)["exec_mode"] == "process"
    (sentence,) = [text for text in progress if "mode process" in text]
    assert sentence.startswith(
        "programs run in mode process: Docker does not have the base image base:1 and cannot pull it ("
    )
    assert "registry" not in "".join(progress)


def test_every_mode_names_its_obstacle(docker, home):
    docker(NO_DAEMON)
    found = {backend.mode: backend for backend in backends(home)}
    assert "daemon" in found["docker"].obstacle
    assert found["docker"].remedy
    assert found["fargate"].obstacle == found["docker"].obstacle
    assert bool(found["process"].obstacle) == bool(found["process"].remedy)


@pytest.mark.skipif(platform.system() != "Linux", reason="tasks need the network of this machine")
def test_tasks_run_where_a_daemon_of_this_machine_has_the_image(docker, home, monkeypatch):
    monkeypatch.setenv(MODE_VARIABLE, "fargate")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    docker('[ "$1" = context ] && echo unix:///somewhere/docker.sock; exit 0')
    assert prepare(home, silent) == {
        "exec_mode": "fargate",
        "exec_image": image_name(),
        "exec_python": "",
        "exec_home": "",
        "exec_tasks": "true",
    }
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    found = docker_variables()
    assert found["DOCKER_HOST"] == "unix:///somewhere/docker.sock"
    assert "XDG_RUNTIME_DIR" not in found, "it led to the socket, and is another one in another shell"
    assert found["PATH"].endswith(str(home.parent / "bin"))


def test_a_daemon_elsewhere_runs_programs_and_no_tasks(docker, installed, monkeypatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    docker('[ "$1" = context ] && echo ssh://builder; exit 0')
    found = {backend.mode: backend for backend in backends(installed)}
    assert not found["docker"].obstacle
    assert "of this machine" in found["fargate"].obstacle
    assert "DOCKER_HOST" not in docker_variables()
    monkeypatch.setenv(MODE_VARIABLE, "fargate")
    with pytest.raises(DependencyError, match="mode docker"):
        prepare(installed, silent)


def test_only_variables_of_another_daemon_are_passed_on(monkeypatch):
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_HOST", "ssh://builder")
    monkeypatch.setenv("PLANTED", "1")
    found = docker_variables()
    assert found["DOCKER_HOST"] == "ssh://builder"
    assert "PLANTED" not in found
    assert "DOCKER_CONTEXT" not in found


def test_the_command_line_says_how_it_is_used(capsys):
    assert main(["nonsense"]) == 2
    assert "usage" in capsys.readouterr().err
