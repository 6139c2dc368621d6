"""Whole turns with programs in one process: the real loop, the scripted model, a real backend, nothing deployed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepline.bootstrap.memory_wiring import in_memory
from stepline.bootstrap.program_backend import ProgramBackends
from stepline.local.stage.deployed import HOME, REPOSITORY, install_environment
from stepline.local.stage.program_environment import EXECUTOR_HOME
from stepline.local.stage.program_image import image_name
from stepline.loop.programs.execute import execute
from stepline.model.entry import Closed, Resulted
from stepline.model.program.execution import RuntimeProfile
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import fold_workspace
from tests.e2e.mode import docker_obstacle
from tests.e2e.project import BEGIN, CHANGE, PROJECT
from tests.e2e.sales import PNG, TOTALS, WRITE, table_of, totals_of, written_totals
from tests.support.conversation import LANE, Conversation
from tests.support.generation import PROGRAM
from tests.unit.local.scripted.scripted_conversation import ScriptedClient

PYTHON = HOME / "exec-env/bin/python"
IMAGE = install_environment().get("PY_CODE_EXEC_IMAGE") or image_name()
# What a supervisor's settings must name; nothing is connected to.
HANDED = {"AWS_DEFAULT_REGION": "us-east-1", "STEPLINE_TABLE": "none", "STEPLINE_BUCKET": "none"}
RUN = "Run this program:\n```python\n{}\n```"


class Stage(Conversation):
    """A conversation whose model and backend are the real ones."""

    def __init__(self, mode):
        super().__init__()
        settings = Settings.from_env(
            {
                "EXEC_RUNTIME_MODE": mode,
                "STEPLINE_EXEC_PYTHON": str(PYTHON),
                "STEPLINE_EXEC_HOME": str(EXECUTOR_HOME),
                "PY_CODE_EXEC_IMAGE": IMAGE,
            }
        )
        self.app = replace(in_memory(settings), handed=HANDED)
        self.ports, self.agent, self.model = self.app.ports, self.app.agent, ScriptedClient()
        self.log, self.machine, self.clock = self.ports.log, self.ports.machine, self.ports.clock
        self.backend = ProgramBackends(self.app).find(RuntimeProfile(backend=mode))
        self.turns = 0

    def execute(self, step):
        return execute(self.ports, lambda _: self.backend, step)

    def turn(self, text):
        """Send a message, let the turn run to its end and return its answer."""
        self.turns += 1
        self.send(text, id=f"m{self.turns}")
        self.run()
        closed = self.entries(Closed)[-1]
        assert closed.outcome == "completed", closed
        return closed.answer

    def results(self):
        return [(entry.tool_id, entry.status) for entry in self.entries(Resulted)]

    def stored(self):
        """Return the bytes of every file in the log, by name."""
        blocks = [block for entry in self.entries(Resulted) for block in entry.blocks if block.body]
        return {block.path.rpartition("/")[2]: self.ports.artifacts.get(block.body.key) for block in blocks}

    def workspace(self):
        turn = self.entries(Closed)[-1].turn
        files = fold_workspace(Timeline.empty(LANE).extended(self.batches()), turn)
        return [file.path.removeprefix(f"{turn}/") for file in files]


@pytest.fixture(scope="module", params=["process", "docker"])
def backend(request):
    """A backend that is kept warm over the tests of one mode."""
    if request.param == "docker" and (why := docker_obstacle(IMAGE)):
        pytest.skip(f"docker: {why}")
    if request.param == "process" and not PYTHON.exists():
        pytest.skip(f"process: no {PYTHON.relative_to(REPOSITORY)}")
    kept = Stage(request.param).backend
    yield kept
    kept.close()


@pytest.fixture
def stage(backend):
    made = Stage(backend.backend)
    made.backend = backend
    if "unsupported_platform" in made.turn(RUN.format("open('outputs/probe.txt', 'w').write('x')")):
        pytest.skip("this machine allows no isolated programs")
    return made


def test_a_table_of_an_earlier_turn_becomes_monthly_totals_and_a_chart(stage):
    stage.turn(WRITE.format(word="tea"))
    answer = stage.turn(TOTALS)
    assert stage.results()[1:] == [("react.write", "ok"), ("react.pull", "ok"), (PROGRAM, "ok")], answer
    stored = stage.stored()
    expected = totals_of(stored["sales.csv"])
    assert len(expected) == 5
    assert table_of(answer) == expected
    assert written_totals(stored["monthly_totals.csv"]) == expected
    assert stored["monthly_totals.png"].startswith(PNG)
    assert len(stored["monthly_totals.png"]) > 1024


def test_a_folder_that_a_program_wrote_is_pulled_and_read_by_another(stage):
    write = "import os\nos.makedirs('files/a/b')\nopen('files/a/b/x.txt', 'w').write('seven')"
    stage.turn(RUN.format(write))
    turn = stage.entries(Closed)[-1].turn
    read = f"import os\nprint(open(os.environ['OUTPUT_DIR'] + '/{turn}/files/a/b/x.txt').read())"
    answer = stage.turn(RUN.format(f"{read}\nopen('outputs/done.txt', 'w').write('y')"))
    assert "seven" in answer
    assert stage.workspace() == ["outputs/done.txt", f"{turn}/files/a/b/x.txt"]


def test_a_file_that_a_program_deletes_is_gone_for_the_next_one(stage):
    stage.send(
        RUN.format("open('files/a.txt', 'w').write('a'); open('files/b.txt', 'w').write('b')"), id="x1"
    )
    name, step = stage.take()
    for _ in range(4):  # Decide, Prepare, Execute, Act: the first program has run
        step = stage.states[step.route](step)
    second = RUN.replace(":", ", it writes files/c.txt:", 1)
    delete = "import os\nprint(sorted(os.listdir('files')))\nos.remove('files/a.txt')\nopen('files/c.txt', 'w').write('c')"
    stage.send(second.format(delete), id="x2")
    stage.drive(step)
    stage.machine.end(name)
    assert stage.results()[1:] == [(PROGRAM, "ok"), (PROGRAM, "ok")]
    closed = stage.entries(Closed)[-1]
    assert "['a.txt', 'b.txt']" in closed.answer
    assert stage.workspace() == ["files/b.txt", "files/c.txt"]


def test_a_project_is_patched_and_run_without_writing_whole_files(stage):
    stage.turn(BEGIN)
    first = stage.entries(Closed)[-1].turn
    known = len(stage.results())
    answer = stage.turn(CHANGE)
    assert stage.results()[known:] == [
        ("react.checkout", "ok"),
        ("react.patch", "ok"),
        ("react.rg", "ok"),
        (PROGRAM, "ok"),
    ], answer
    assert "41: BIRD = 'crane'" in answer
    assert "a crane" in answer
    assert stage.stored()["bird.txt"] == b"a crane"
    assert [path for path in stage.workspace() if "__pycache__" not in path] == sorted(
        [*PROJECT, "outputs/bird.txt"]
    )
    timeline = Timeline.empty(LANE).extended(stage.batches())
    before = {file.path.partition("/")[2]: file.sha256 for file in fold_workspace(timeline, first)}
    after = {
        file.path.partition("/")[2]: file.sha256
        for file in fold_workspace(timeline, stage.entries(Closed)[-1].turn)
    }
    changed = {path for path in PROJECT if before[path] != after[path]}
    assert changed == {"files/app/birds.py"}


@pytest.mark.parametrize(
    ("program", "code", "wanted"),
    [
        ("raise ValueError('plum')", "nonzero_exit", "ValueError: plum"),
        ("print('nothing written')", "missing_output_files", "nothing written"),
        ("import socket; socket.create_connection(('127.0.0.1', 80))", "nonzero_exit", "Error"),
    ],
)
def test_a_failed_program_is_reported(stage, program, code, wanted):
    answer = stage.turn(RUN.format(program))
    assert stage.results()[1:] == [(PROGRAM, "error")]
    assert stage.entries(Resulted)[-1].error["code"] == code
    assert wanted in answer


def test_a_program_that_takes_too_long_is_ended(stage):
    said = RUN.format("import time\nprint('so far', flush=True)\ntime.sleep(60)")
    for timeout_s in (
        4,
        16,
        48,
    ):  # on a busy machine it may not have begun at the first: that is another error
        answer = stage.turn(said.replace(":", f" with a timeout of {timeout_s} seconds:", 1))
        if "so far" in answer:
            break
    assert stage.entries(Resulted)[-1].error["code"] == "timeout"
    assert "so far" in answer
