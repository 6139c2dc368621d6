"""Documents drawn in the jail, by the packages of programs, and read back there by other ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from stepline.local.stage.deployed import HOME
from stepline.model.program.execution import WorkFile
from tests.contract.executor_jobs import Bench, process_bench, skip_unsupported

KINDS = ("pdf", "docx", "pptx", "xlsx", "png", "html")
TOOLS = tuple(f"rendering_tools.write_{kind}" for kind in KINDS)
PYTHON = HOME / "exec-env/bin/python"

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\3\1\1\0"
    b"\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82"
)

_DRAW = """
import io, json, os
from pathlib import Path

def draw(kind, params):
    try:
        found = agent_io_tools.tool_call(tool_id=f"rendering_tools.write_{kind}", params=params)
    except agent_io_tools.ToolCallError as refused:
        return {"code": refused.code, "message": refused.message}
    return dict(found)

def drawn(path):
    # The letters of each line of the first page, from left to right, without blanks.
    from pypdfium2 import PdfDocument
    page = PdfDocument(path)[0].get_textpage()
    lines = {}
    for at in range(page.count_chars()):
        letter, box = page.get_text_range(at, 1), page.get_charbox(at, loose=True)
        if letter.strip():
            lines.setdefault(round(box[1]), []).append((box[0], letter))
    return ["".join(letter for _, letter in sorted(lines[low])) for low in sorted(lines, reverse=True)]

def pdf(path):
    from pypdf import PdfReader
    pages = PdfReader(path).pages
    links = [note.get_object()["/A"].get("/URI", "") for page in pages for note in page.get("/Annots", ()) if "/A" in note.get_object()]
    return {"text": " ".join(page.extract_text() for page in pages), "links": links, "drawn": drawn(path),
            "pictures": sum(len(page.images) for page in pages), "wide": pages[0].mediabox.width > pages[0].mediabox.height}

def docx(path):
    import docx
    file = docx.Document(path)
    cells = [cell.text for table in file.tables for row in table.rows for cell in row.cells]
    links = [one.target_ref for one in file.part.rels.values() if one.is_external]
    marked = "".join(file.element.body.xml.split())
    return {"text": " ".join([*(one.text for one in file.paragraphs), *cells]), "turned": marked.count("<w:bidi/>"), "links": links, "pictures": len(file.inline_shapes)}

def pptx(path):
    import pptx
    shapes = [shape for slide in pptx.Presentation(path).slides for shape in slide.shapes]
    frames = [shape.text_frame for shape in shapes if shape.has_text_frame]
    frames += [cell.text_frame for shape in shapes if shape.has_table for row in shape.table.rows for cell in row.cells]
    runs = [run for frame in frames for paragraph in frame.paragraphs for run in paragraph.runs]
    turned = [paragraph for frame in frames for paragraph in frame.paragraphs if 'rtl="1"' in paragraph._p.xml]
    return {"text": " ".join(run.text for run in runs), "turned": len(turned), "links": [run.hyperlink.address for run in runs if run.hyperlink.address],
            "pictures": sum(shape.shape_type == 13 for shape in shapes)}

def xlsx(path):
    import openpyxl
    book = openpyxl.load_workbook(path)
    rows = {sheet.title: [[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in book}
    formulas = [cell.value for sheet in book for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]
    return {"text": json.dumps(rows), "turned": sum(bool(sheet.sheet_view.rightToLeft) for sheet in book), "sheets": rows, "formulas": formulas, "links": [], "pictures": 0}

def png(path):
    from PIL import Image
    with Image.open(path) as image:
        return {"size": image.size, "text": "", "links": [], "pictures": 0}

def html(path):
    import re
    text = Path(path).read_text()
    return {"text": text, "turned": text.count(' dir="rtl"'), "links": re.findall('href="(http[^"]*)"', text), "pictures": text.count('src="data:image/')}

def read(found):
    path = os.path.join(OUTPUT_DIR, found["path"])
    return globals()[path.rpartition(".")[2].lower()](path)
"""


class Drawing:
    """Draws documents on one backend."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def draw_all(
        self,
        calls: list[tuple[str, dict[str, Any]]],
        *,
        files: tuple[WorkFile, ...] = (),
        before: str = "",
        others: tuple[str, ...] = (),
    ) -> list[dict[str, Any]]:
        """Return the answers of calls by one program; a drawn file's has what a reader finds as `read`."""
        code = f"{_DRAW}\n{before}\nfor kind, params in json.loads({json.dumps(calls)!r}):\n"
        code += "    found = draw(kind, params)\n"
        code += "    print(json.dumps(found if 'code' in found else found | {'read': read(found)}))\n"
        run = self.bench.ran(code, files=files, tools=(*TOOLS, *others))
        return [json.loads(line) for line in run.program_log.splitlines() if line.startswith("{")]

    def draw(
        self, kind: str, content: str, *, files: tuple[WorkFile, ...] = (), **params: Any
    ) -> dict[str, Any]:
        (found,) = self.draw_all([(kind, call(kind, content, **params))], files=files)
        return found


def call(kind: str, content: str, **params: Any) -> dict[str, Any]:
    return {"path": f"outputs/a.{kind}", "content": content, **params}


def codes(found: Mapping[str, Any]) -> list[str]:
    """Return the codes of a drawn document's warnings."""
    return [one["code"] for one in found["warnings"]]


@contextmanager
def drawing() -> Iterator[Drawing]:
    """Draw in namespaces of this machine; skipped where it has none, or no packages of programs."""
    if not PYTHON.exists():
        pytest.skip("the packages of programs are not installed: make exec-env")
    with process_bench(python=PYTHON) as bench:
        skip_unsupported(bench)
        yield Drawing(bench)
