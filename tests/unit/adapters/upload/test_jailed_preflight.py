"""The process that judges files: it gives the same verdicts, and can do nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import ImageCms

from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.upload import inspect_file, preflight
from stepline.adapters.upload.preflight import FAILED, JailedPreflight
from stepline.model.file.file_verdict import FileLimits
from stepline.model.file.mime import DOCX
from tests.support.files import GIF, JPEG, PDF, PNG, WEBP, bomb, film, noise, pdf, picture
from tests.support.office import document

WRITTEN = [
    ("cp1251", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
    ("koi8-r", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
    ("cp1252", "Die Größe der Stücke wächst jährlich; für die Übergabe: „gut“."),
    ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
    ("shift_jis", "今日は天気がいいので、友達と一緒に公園へ行きました。"),
    ("euc-jp", "今日は天気がいいので、友達と一緒に公園へ行きました。"),
    ("iso-2022-jp", "今日は天気がいいので、友達と一緒に公園へ行きました。"),
    ("gb18030", "今天的天气非常好, 我们打算去公园散步。请把这个文件保存到您的电脑上。"),
    ("big5", "今天的天氣非常好, 我們打算去公園散步。請把這個檔案儲存到您的電腦上。"),
    ("euc-kr", "오늘은 날씨가 매우 좋아서 우리는 공원에 산책하러 갑니다."),
    ("utf-16-le", "Größe und Stück"),
    ("utf-32", "Größe und Stück"),
]
FILES = [
    ("a.png", PNG, picture()),
    ("a.png", PNG, noise(PNG, (1200, 1200))),
    ("a.jpg", JPEG, picture(JPEG, (4000, 3000))),
    ("a.gif", GIF, film(GIF)),
    ("a.webp", WEBP, picture(WEBP)),
    ("a.png", PNG, bomb()),
    ("a.pdf", PDF, pdf(501, is_packed=True)),
    ("a.docx", DOCX, document()),
    ("a.docx", DOCX, document(parts={"word/vbaProject.bin": "x"})),
    ("ä.txt", "text/plain", b"hi"),
    ("a.txt", "text/plain", "hi".encode("utf-16")),
    ("a.txt", "text/plain", "für".encode("latin-1") + b"." * 20),
    ("a.xml", "application/xml", '<?xml version="1.0" encoding="x-sjis"?><a>今日は</a>'.encode("shift_jis")),
    *(("a.txt", "text/plain", text.encode(codec)) for codec, text in WRITTEN),
    ("a.txt", "text/plain", bytes(range(128, 256))),
    ("a.jpg", JPEG, picture(JPEG, mode="CMYK", color=(0, 90, 200, 30))),
    (
        "a.png",
        PNG,
        picture(PNG, icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()),
    ),
]


@pytest.mark.parametrize(("filename", "mime", "data"), FILES)
def test_the_verdict_is_the_one_without_a_jail(tmp_path: Path, filename: str, mime: str, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    jailed, free = (
        one.judge(path, filename=filename, mime=mime, limits=FileLimits())
        for one in (JailedPreflight(), MemoryPreflight())
    )
    assert jailed == free


TRIES = {
    "a file": "open('/etc/passwd')",
    "a socket": "import socket; socket.socket()",
    "another process": "import subprocess; subprocess.run(['true'])",
    "a pipe": "import os; os.pipe()",
}


@pytest.mark.parametrize("attempt", TRIES.values(), ids=TRIES)
def test_a_closed_off_process_cannot_open_anything(attempt: str) -> None:
    program = f"""
import socket, subprocess, sys
sys.path.insert(0, {str(Path(inspect_file.__file__).parent)!r})
import inspect_file
inspect_file.close_off()
try:
    {attempt}
except OSError as error:
    print(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "24", done.stderr


def test_a_failing_judge_refuses_the_file_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "judge.py"
    program.write_text("raise SystemExit(1)")
    monkeypatch.setattr(preflight, "_PROGRAM", program)
    assert JailedPreflight().judge(program, filename="a", mime="text/plain", limits=FileLimits()) == FAILED
    assert [record.message for record in caplog.records] == ["file not judged"]


def test_a_judge_that_does_not_end_refuses_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "judge.py"
    program.write_text("while True: pass")
    monkeypatch.setattr(preflight, "_PROGRAM", program)
    monkeypatch.setattr(preflight, "JUDGE_S", 0.5)
    assert JailedPreflight().judge(program, filename="a", mime="text/plain", limits=FileLimits()) == FAILED
