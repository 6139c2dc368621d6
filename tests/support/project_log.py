"""A log whose turns write, delete and check out files of a project, with the bytes of the files in an artifact store."""

from __future__ import annotations

import hashlib
import json

from stepline.model.block import Body, Produced
from stepline.model.file.mime import guess_mime
from stepline.model.ids import Lane
from stepline.model.path import out_key
from stepline.ports.artifacts import Artifacts
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import last_checkout, project_files
from tests.support.generation import PROGRAM
from tests.support.log_builder import LANE, LogBuilder


class ProjectLog(LogBuilder):
    """A turn is open from the beginning; names of files are below its `files/`."""

    def __init__(self, artifacts: Artifacts, lane: Lane = LANE) -> None:
        super().__init__()
        self.artifacts = artifacts
        self.lane = lane
        self.message()

    def project(self) -> Timeline:
        """Return the timeline, in this log's lane."""
        return Timeline.empty(self.lane).extended(self.batches)

    def write(self, files: dict[str, bytes | str]) -> None:
        """Let one call write files."""
        blocks = tuple(self._stored(name, body) for name, body in files.items())
        self._call("react.write", Produced(text="done"), *blocks)

    def delete(self, *names: str) -> None:
        """Let a program delete files."""
        gone = [f"{self.turn}/files/{name}" for name in names]
        self._call(PROGRAM, Produced(text="Status: success", meta={"deleted": gone}))

    def pull(self, *refs: str) -> None:
        """Pull files of earlier turns; `refs` are physical paths."""
        self._call("react.pull", Produced(text="{}", meta={"pulled": list(refs)}))

    def check_out(self, mode: str, *refs: str) -> None:
        """Check out files of earlier turns, as the tool does; `refs` are logical paths, a folder ends with a slash."""
        timeline = self.project()
        taken = {}
        for ref in refs:
            of, _, below = ref.removeprefix("fi:").partition(".files/")
            files = project_files(timeline.turn_blocks(of), of)
            taken |= {path: file for path, file in files.items() if path.startswith(below)}
        here = project_files(timeline.turn_blocks(self.turn), self.turn)
        gone = sorted(here.keys() - taken.keys()) if mode == "replace" else []
        status = Produced(text="{}", meta={"deleted": [f"{self.turn}/files/{path}" for path in gone]})
        earlier = last_checkout(timeline.turn_blocks(self.turn)).refs if mode == "overlay" else ()
        facts = json.dumps({"mode": mode, "checked_out_from": list(dict.fromkeys([*earlier, *refs]))})
        record = Produced(
            path=f"ar:{self.turn}.react.workspace.checkout", type="react.workspace.checkout", text=facts
        )
        made = [
            Produced(
                path=f"fi:{self.turn}.files/{path}",
                body=Body(key=file.key, sha256=file.sha256, size_bytes=file.size_bytes, mime=file.mime),
            )
            for path, file in sorted(taken.items())
        ]
        self._call("react.checkout", status, record, *made)

    def end(self, *, code: str = "") -> str:
        """End the turn, with an error if there is a code; return its id. Another one is opened."""
        turn = self.turn
        if not code:
            self.answer()
        self.close(code=code)
        self.message("go on")
        return turn

    def _call(self, tool: str, *blocks: Produced) -> None:
        self.act((tool, {}))
        self.result(tool=tool, blocks=blocks)

    def _stored(self, name: str, body: bytes | str) -> Produced:
        body = body.encode() if isinstance(body, str) else body
        sha256 = hashlib.sha256(body).hexdigest()
        mime = guess_mime(name)
        stored = Body(
            key=out_key(self.lane, self.turn, sha256), sha256=sha256, size_bytes=len(body), mime=mime
        )
        self.artifacts.put(stored.key, body, mime=mime)
        return Produced(path=f"fi:{self.turn}.files/{name}", body=stored)
