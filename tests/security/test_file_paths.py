"""Every tool that takes a path of a file, and every path that means to lead out of the conversation's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.timeline.workspace import fold_workspace
from tests.unit.model.test_path import HOSTILE
from tests.unit.tools.logged_tools import LoggedTools

SECRET = "the secret of somebody else"
OTHER = "out/other/project/conversation/turn_0001/key"

ENTRIES = {
    "read": lambda path: ("react.read", {"paths": [path]}),
    "read an item": lambda path: ("react.read", {"items": [{"path": path, "line_start": 1}]}),
    "write": lambda path: ("react.write", {"path": path, "content": "x"}),
    "patch": lambda path: ("react.patch", {"path": path, "patch": "x"}),
    "search": lambda path: ("react.rg", {"root": path, "pattern": "."}),
    "pull": lambda path: ("react.pull", {"paths": [path]}),
    "check out": lambda path: ("react.checkout", {"paths": [path]}),
    "check out a version": lambda path: ("react.checkout", {"version": path}),
    "hide": lambda path: ("react.hide", {"path": path, "replacement": "x"}),
    "fetch": lambda path: ("ctx_tools.fetch_ctx", {"path": path}),
}
LEADING_OUT = (
    *(text for text, _ in HOSTILE if text and "\ud800" not in text),
    "../../etc/passwd",
    "files/../../other",
    "outputs/..",
    "turn_0001/files/../../turn_0002/x",
    "turn_0001/../other",
    "fi:turn_0001.files/..",
    "fi:turn_0001.files/./x",
    "fi:turn_0001.outputs/a/../../../b",
    "fi:../turn_0001.files/x",
    "outdir/../x",
    OTHER,
    f"fi:{OTHER}",
    "file:///etc/passwd",
    "s3://bucket/key",
    "~/x",
    "C:/x",
    "files/a\\..\\b",
    "files/\u2024\u2024/x",
    "files/%2e%2e/%2e%2e/x",
)


class WatchedArtifacts(MemoryArtifacts):
    """Keeps the keys that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)

    def heads(self, keys: Sequence[str], *, max_bytes: int) -> Iterator[bytes]:
        self.read += keys
        return super().heads(keys, max_bytes=max_bytes)


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_path_leads_out_of_the_files_that_the_log_names(entry):
    for path in LEADING_OUT:
        artifacts = WatchedArtifacts()
        artifacts.put(OTHER, SECRET.encode(), mime="text/plain")
        tools = LoggedTools(artifacts=artifacts)
        tools.write("files/a.txt")
        tools.next_turn()
        tools.write("files/b.txt")
        before = files_of(tools)
        artifacts.read.clear()
        tool, params = ENTRIES[entry](path)
        output = tools.call(tool, params)
        after = files_of(tools)
        assert not any(SECRET in block.text for block in output.blocks), path
        assert set(artifacts.read) <= set(before.values()), path
        for new in after.keys() - before.keys():
            assert new.startswith((f"{tools.turn}/files/", f"{tools.turn}/outputs/")), path
            assert not {"..", "."} & set(new.split("/")), path


def files_of(tools: LoggedTools) -> dict[str, str]:
    return {file.path: file.key for file in fold_workspace(tools.log.timeline(), tools.turn)}
