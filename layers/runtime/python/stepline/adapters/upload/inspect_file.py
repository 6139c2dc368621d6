"""A program that judges the file on standard input by its bytes, and writes the verdict as JSON.

Decoders and parsers of foreign files run only here: with limits on time and memory, and without the parent's
environment. Before it reads the first byte, the process gives up the right to open files or sockets and to start other
processes. Arguments: the folders of modules, joined by colons, and the claim as JSON.
"""

from __future__ import annotations

import codecs
import resource
import sys
from typing import Final

CPU_S: Final = 20
MEMORY_BYTES: Final = 800 * 1024 * 1024
"""Address space: 170 MB for the largest picture, twice the largest text, and the interpreter with its libraries."""
FURTHER_CODECS: Final = ("ascii", "cp437", "latin-1", "utf-8-sig", "utf-16", "utf-32")
"""Codecs in addition to those of texts: those of marked texts, and of the names in an archive."""


def main() -> None:
    """Judge one file."""
    sys.path.extend(sys.argv[1].split(":"))
    for limit, value in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    import msgspec  # noqa: PLC0415 - its location is an argument
    from PIL import Image, ImageCms, ImageOps  # noqa: F401, PLC0415 - as above; nothing can be imported later
    from resiliparse.parse import encoding  # noqa: F401, PLC0415 - as above

    from stepline.adapters.upload.claim import Claim  # noqa: PLC0415 - as above
    from stepline.model.file.charset import CODECS  # noqa: PLC0415 - as above
    from stepline.model.file.mime import PDF  # noqa: PLC0415 - as above
    from stepline.preflight.judge_file import judge_file  # noqa: PLC0415 - as above

    Image.init()
    for name in (*FURTHER_CODECS, *CODECS.values()):
        codecs.decode(b"\xa4\xa4", name, "replace")  # this also loads the tables
    claim = msgspec.json.decode(sys.argv[2], type=Claim)
    if claim.mime == PDF:
        import stepline.preflight.judge_pdf  # noqa: F401, PLC0415 - as above
    close_off()
    verdict = judge_file(sys.stdin.fileno(), filename=claim.filename, mime=claim.mime, limits=claim.limits)
    sys.stdout.buffer.write(msgspec.json.encode(verdict))


def close_off() -> None:
    """Prevent this process from opening files, sockets or pipes, and from starting other processes."""
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        resource.setrlimit(limit, (0, 0))


if __name__ == "__main__":
    main()
