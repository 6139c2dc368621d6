"""The data of a user as one zip: conversations with turns, files, feedback, memory and receipts, and the limits.

    index.json                                      the user, the time, and the files that could not be fetched
    limits.json                                     the limits and their usage
    conversations/<name>/conversation.json          its row in the list
    conversations/<name>/receipts.json              the cost of its turns
    conversations/<name>/{memory,feedback}.jsonl    one row per line
    conversations/<name>/documents/<kind>.json      the documents of the export, a turn's with its id
    conversations/<name>/files/<path>               the files, by their names

Source: docs/concepts/erasure.md#export.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
import urllib3

from stepline.adapters.http_pool import make_pool
from stepline.errors import InputError, SteplineError
from stepline.local.client.api_transport import ApiError
from stepline.local.named_files import FileNames
from stepline.model.base import Value

if TYPE_CHECKING:
    from stepline.api.tenancy.user_export import ExportedFile, UserData
    from stepline.local.client.http_api import HttpApi

TIMEOUT_S: Final = 60.0


class Archive(Value):
    """A written zip: the number of its conversations and files, and the paths of missing files."""

    path: str
    conversations: int
    files: int
    missing: tuple[str, ...] = ()


def write_archive(api: HttpApi, path: Path) -> Archive:
    """Write the data of the API's caller into a new file.

    Raises InputError `not_writable`: the file exists, or cannot be written. Raises ApiError, DependencyError.
    """
    try:
        with ZipFile(path, "x", ZIP_DEFLATED) as archive:
            return _Writer(archive, path).write(api)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", code="not_writable") from error


def fetch_file(url: str) -> bytes:
    """Return the bytes at a short-lived address. Raises InputError `file_not_fetched`."""
    try:
        answer = make_pool(url).request("GET", url, timeout=TIMEOUT_S, retries=2)
    except urllib3.exceptions.HTTPError as error:
        raise InputError("the address of a file does not answer", code="file_not_fetched") from error
    if answer.status >= 300:
        raise InputError(f"the address of a file answers {answer.status}", code="file_not_fetched")
    return bytes(answer.data)


def fetch_content(url: str, sha256: str) -> bytes | None:
    """Return the bytes at an address, None if they cannot be fetched or do not have this hash."""
    try:
        body = fetch_file(url)
    except SteplineError:
        return None
    return body if hashlib.sha256(body).hexdigest() == sha256 else None


class _Writer:
    """Writes pages into an archive; rows of one conversation are kept until its last page."""

    def __init__(self, archive: ZipFile, path: Path) -> None:
        self._archive, self._path = archive, path
        self._conversations: dict[str, dict[str, list[Any]]] = {}
        self._names: defaultdict[str, FileNames] = defaultdict(FileNames)
        self._files = 0
        self._missing: list[str] = []

    def write(self, api: HttpApi) -> Archive:
        about: dict[str, Any] = {}
        for page in _pages(api):
            about = {"tenant": page.tenant, "project": page.project, "user": page.user, "at": page.at}
            self._write_page(api, page)
        for name, rows in self._conversations.items():
            for kind, found in rows.items():
                text = "".join(f"{msgspec.json.encode(row).decode()}\n" for row in found)
                self._archive.writestr(f"conversations/{name}/{kind}.jsonl", text)
        self._put("limits.json", api.read_limits())
        made = Archive(
            path=str(self._path),
            conversations=len(self._conversations),
            files=self._files,
            missing=tuple(self._missing),
        )
        counts = {"conversations": made.conversations, "files": made.files, "missing": list(made.missing)}
        self._put("index.json", {**about, **counts})
        return made

    def _write_page(self, api: HttpApi, page: UserData) -> None:
        row = page.conversation
        if row is None:
            return
        folder = f"conversations/{row.conversation}"
        if row.conversation not in self._conversations:
            self._conversations[row.conversation] = {"memory": [], "feedback": []}
            self._put(f"{folder}/conversation.json", row)
            self._put(f"{folder}/receipts.json", _receipts(api, row.conversation))
        rows = self._conversations[row.conversation]
        rows["memory"] += page.memory
        rows["feedback"] += page.feedback
        for document in page.documents:
            kind = document.kind.removeprefix("artifact:").replace(":", ".")
            turn = document.payload.get("turn_id", "")
            self._put(f"{folder}/documents/{kind}{f'.{turn}' if turn else ''}.json", document.payload)
        for file in page.files:
            self._write_file(folder, file)

    def _write_file(self, folder: str, exported: ExportedFile) -> None:
        file = exported.file
        name = f"{folder}/files/{self._names[folder].choose(file.logical_path, file.sha256)}"
        body = fetch_content(exported.url, file.sha256)
        if body is None:
            self._missing.append(name)
            return
        self._archive.writestr(name, body)
        self._files += 1

    def _put(self, name: str, value: Any) -> None:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=1)
        self._archive.writestr(name, f"{text}\n")


def _pages(api: HttpApi) -> Iterator[UserData]:
    page = api.export_me()
    yield page
    while page.next:
        page = api.export_me(after=page.next)
        yield page


def _receipts(api: HttpApi, conversation: str) -> Any:
    """Return the receipts of a conversation; an object without any if it was deleted since."""
    try:
        return api.get_receipts(conversation)
    except ApiError as error:
        return {"code": error.reason}
