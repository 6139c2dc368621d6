"""The workspace fold: the last write wins, a deleted file is gone, pulled files are included, all others are not."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from stepline.model.block import Body, Produced
from stepline.model.program.execution import WorkFile
from stepline.timeline.workspace import fold_workspace
from tests.support.log_builder import LogBuilder, patient

EXEC = "exec_tools.execute_code_python"


def stored(path: str, content: str = "x") -> Produced:
    body = Body(key=f"out/{content}", sha256=content.rjust(64, "0"), size_bytes=len(content), mime="text/csv")
    return Produced(path=path, body=body)


def write(log: LogBuilder, *blocks: Produced, tool: str = "react.write", **fields: object) -> None:
    """Run one round whose call produces these blocks."""
    log.act((tool, {}))
    log.result(tool=tool, blocks=(Produced(text="done"), *blocks), **fields)


def pull(log: LogBuilder, *paths: str, status: str = "ok") -> None:
    log.act(("react.pull", {}))
    log.result(tool="react.pull", status=status, blocks=(Produced(text="{}", meta={"pulled": list(paths)}),))


def delete(log: LogBuilder, *paths: str) -> None:
    log.act((EXEC, {}))
    log.result(tool=EXEC, blocks=(Produced(text="Status: success", meta={"deleted": list(paths)}),))


def workspace(log: LogBuilder) -> tuple[WorkFile, ...]:
    return fold_workspace(log.timeline(), log.turn)


def paths(files: Iterable[WorkFile]) -> list[str]:
    return [file.path for file in files]


def next_turn(log: LogBuilder) -> None:
    log.answer()
    log.close()
    log.message("go on")


def a_log() -> LogBuilder:
    log = LogBuilder()
    log.message("hello")
    return log


def test_a_turn_that_wrote_nothing_has_an_empty_workspace():
    assert workspace(a_log()) == ()


def test_a_missing_turn_has_an_empty_workspace():
    assert fold_workspace(a_log().timeline(), "turn_9999") == ()


def test_a_written_file_has_its_physical_path_and_stored_bytes():
    log = a_log()
    write(log, stored(f"fi:{log.turn}.outputs/a.csv", "one"))
    assert workspace(log) == (
        WorkFile(
            path=f"{log.turn}/outputs/a.csv",
            key="out/one",
            sha256="one".rjust(64, "0"),
            size_bytes=3,
            mime="text/csv",
        ),
    )


def test_an_attachment_is_in_its_folder():
    log = a_log()
    write(log, stored(f"fi:{log.turn}.user.attachments/in.pdf"))
    write(log, stored(f"fi:{log.turn}.external.mail.attachments/m1/in.pdf"))
    assert paths(workspace(log)) == [
        f"{log.turn}/attachments/in.pdf",
        f"{log.turn}/external/mail/attachments/m1/in.pdf",
    ]


def test_files_written_by_a_failed_program_are_kept():
    log = a_log()
    write(log, stored(f"fi:{log.turn}.outputs/half.csv"), tool=EXEC, status="error")
    assert paths(workspace(log)) == [f"{log.turn}/outputs/half.csv"]


def test_texts_and_views_and_code_are_no_files():
    log = a_log()
    path = f"fi:{log.turn}.outputs/a.csv"
    view = Produced(path=path, body=Body(key="k", sha256="s", size_bytes=1), meta={"source_path": "fi:other"})
    write(
        log,
        Produced(path=path, text="the first lines"),
        view,
        stored(f"fi:{log.turn}.code.tc_0123456789ab"),
    )
    assert workspace(log) == ()


def test_a_preview_after_the_bytes_does_not_replace_them():
    log = a_log()
    path = f"fi:{log.turn}.outputs/a.csv"
    write(log, stored(path, "bytes"), Produced(path=path, text="preview"), tool=EXEC)
    assert [file.key for file in workspace(log)] == ["out/bytes"]


def test_a_deleted_file_is_gone_until_it_is_written_again():
    log = a_log()
    write(log, stored(f"fi:{log.turn}.files/a.txt", "one"))
    delete(log, f"{log.turn}/files/a.txt", f"{log.turn}/files/never.txt")
    assert workspace(log) == ()
    write(log, stored(f"fi:{log.turn}.files/a.txt", "two"))
    assert [file.key for file in workspace(log)] == ["out/two"]


def test_only_a_status_can_delete():
    log = a_log()
    write(log, stored(f"fi:{log.turn}.files/a.txt"))
    forged = Produced(
        path=f"fi:{log.turn}.files/b.txt", text="x", meta={"deleted": [f"{log.turn}/files/a.txt"]}
    )
    write(log, forged)
    assert paths(workspace(log)) == [f"{log.turn}/files/a.txt"]


def test_a_path_is_a_file_or_a_folder_and_the_later_write_wins():
    log = a_log()
    turn = log.turn
    write(log, stored(f"fi:{turn}.files/a"))
    write(log, stored(f"fi:{turn}.files/a/b/c"), stored(f"fi:{turn}.files/a-b"))
    assert paths(workspace(log)) == [f"{turn}/files/a-b", f"{turn}/files/a/b/c"]
    write(log, stored(f"fi:{turn}.files/a"))
    assert paths(workspace(log)) == [f"{turn}/files/a", f"{turn}/files/a-b"]
    delete(log, f"{turn}/files/a")
    assert paths(workspace(log)) == [f"{turn}/files/a-b"]


def test_files_of_an_earlier_turn_exist_only_if_pulled():
    log = a_log()
    first = log.turn
    for name in ("outputs/a.csv", "files/src/x.py", "files/src/deep/y.py", "files/srcs.py"):
        write(log, stored(f"fi:{first}.{name}"))
    next_turn(log)
    assert workspace(log) == ()
    pull(log, f"{first}/outputs/a.csv")
    assert paths(workspace(log)) == [f"{first}/outputs/a.csv"]
    pull(log, f"{first}/files/src/")
    assert paths(workspace(log)) == [
        f"{first}/files/src/deep/y.py",
        f"{first}/files/src/x.py",
        f"{first}/outputs/a.csv",
    ]


def test_a_pulled_file_is_the_one_its_turn_ended_with():
    log = a_log()
    first = log.turn
    write(log, stored(f"fi:{first}.files/a.txt", "one"), stored(f"fi:{first}.files/gone.txt"))
    write(log, stored(f"fi:{first}.files/a.txt", "two"))
    delete(log, f"{first}/files/gone.txt")
    next_turn(log)
    pull(log, f"{first}/files/")
    assert [(file.path, file.key) for file in workspace(log)] == [(f"{first}/files/a.txt", "out/two")]


def test_a_pull_counts_for_its_own_turn_only():
    log = a_log()
    first = log.turn
    write(log, stored(f"fi:{first}.outputs/a.csv"))
    next_turn(log)
    pull(log, f"{first}/outputs/a.csv")
    next_turn(log)
    assert workspace(log) == ()


def test_another_tool_pulls_nothing():
    log = a_log()
    first = log.turn
    write(log, stored(f"fi:{first}.outputs/a.csv"))
    next_turn(log)
    log.act(("react.read", {}))
    log.result(blocks=(Produced(text="{}", meta={"pulled": [f"{first}/outputs/a.csv"]}),))
    assert workspace(log) == ()


names = st.sampled_from(["files/a", "files/b", "files/c/d", "outputs/a", "outputs/a b.txt"])
moves = st.lists(
    st.tuples(st.sampled_from(["write", "delete"]), st.lists(names, min_size=1, max_size=3)), max_size=12
)


@patient
@given(moves)
def test_the_workspace_equals_a_simulated_disk(done):
    log = a_log()
    disk: dict[str, str] = {}
    for step, (move, touched) in enumerate(done):
        if move == "write":
            write(log, *(stored(f"fi:{log.turn}.{name}", f"c{step}") for name in touched))
            disk |= {f"{log.turn}/{name}": f"out/c{step}" for name in touched}
        else:
            delete(log, *(f"{log.turn}/{name}" for name in touched))
            for name in touched:
                disk.pop(f"{log.turn}/{name}", None)
    found = [(file.path, file.key) for file in workspace(log)]
    assert found == sorted(disk.items())


@patient
@given(moves)
def test_pulling_all_files_gives_the_workspace_of_that_turn(done):
    log = a_log()
    first = log.turn
    for step, (move, touched) in enumerate(done):
        if move == "write":
            write(log, *(stored(f"fi:{first}.{name}", f"c{step}") for name in touched))
        else:
            delete(log, *(f"{first}/{name}" for name in touched))
    own = workspace(log)
    next_turn(log)
    pull(log, f"{first}/files/", f"{first}/outputs/")
    assert workspace(log) == own
