"""Documents of Office: what is ordinary is taken, what acts on opening is refused in every spelling."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from html import escape
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.file.file_verdict import TAKEN, FileVerdict
from stepline.model.file.mime import DOCX, PPTX, XLSX
from stepline.preflight.judge_office import judge_office
from stepline.preflight.link_target import is_remote
from tests.support.office import document, relations, types

MIB = 1024 * 1024
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STRICT = {
    WORD: "http://purl.oclc.org/ooxml/wordprocessingml/main",
    SHEET: "http://purl.oclc.org/ooxml/spreadsheetml/main",
    R: "http://purl.oclc.org/ooxml/officeDocument/relationships",
}


def body(text: str) -> dict[str, str | bytes]:
    markup = f'<w:document xmlns:w="{WORD}" xmlns:r="{R}"><w:body>{text}</w:body></w:document>'
    return {"word/document.xml": markup}


def sheet(text: str) -> dict[str, str | bytes]:
    return {"xl/worksheets/sheet1.xml": f'<x:worksheet xmlns:x="{SHEET}" xmlns:r="{R}">{text}</x:worksheet>'}


def related(
    kind: str, target: str, part: str = "word/document.xml", *, outside: bool = True
) -> dict[str, str | bytes]:
    folder, _, name = part.rpartition("/")
    return {f"{folder}/_rels/{name}.rels": relations((kind, escape(target), outside))}


def code(*pieces: str) -> str:
    """Return a field whose code is in these pieces, a run each; "{" and "}" are a field within."""
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    within = {"{": mark.format("begin"), "}": mark.format("separate") + mark.format("end")}
    runs = "".join(
        within.get(piece) or f"<w:r><w:instrText>{escape(piece)}</w:instrText></w:r>" for piece in pieces
    )
    return mark.format("begin") + runs + mark.format("separate") + "<w:t>1</w:t>" + mark.format("end")


def formula(text: str) -> dict[str, str | bytes]:
    return sheet(f'<x:c r="A1"><x:f>{escape(text)}</x:f></x:c>')


CHART = "ppt/charts/chart1.xml"
CHART_TYPE = "application/vnd.openxmlformats-officedocument.drawingml.chart+xml"


def chart(workbook: bytes) -> dict[str, str | bytes]:
    return {
        "[Content_Types].xml": types(PPTX, f'<Override PartName="/{CHART}" ContentType="{CHART_TYPE}"/>'),
        CHART: f'<c:chartSpace xmlns:c="c" xmlns:r="{R}"><c:externalData r:id="r0"/></c:chartSpace>',
        **related("package", "../embeddings/Microsoft_Excel_Sheet1.xlsx", CHART, outside=False),
        "ppt/embeddings/Microsoft_Excel_Sheet1.xlsx": workbook,
    }


LINKS = (
    *("https://example.org/", "tel:+4912345", "mailto:a@b.org", "ftp://example.org/a", "plan.docx", "#there"),
    *("file:///S:/plan.xlsx", r"file:///\\srv\team\plan.docx", r"\\srv\team", "onenote:x", "skype:a?call"),
)
LOCAL = (
    "Firm.dotx",
    "file:///C:/Templates/Firm.dotx",
    r"C:\Templates\My Firm.dotm",
    "/srv/a/b.dotx",
    "file:b.dotx",
)
REMOTE = (
    *(
        "https://e.org/a.dotm",
        "http:e.org",
        "ftp://e.org/a",
        r"\\host\share\a",
        "//host/share/a",
        r"\/host\a",
    ),
    *(
        "file://host/share/a",
        "file:////host/a",
        r"file:///\\host\a",
        r"file:\\host\a",
        r"\\host@SSL\DavWWWRoot\a",
    ),
    *(
        r"%5C%5Chost\a",
        "webdav://e.org/a",
        "h\tttps://e.org",
        "\u00a0http://e.org",
        "file://///host/a",
        r"\\?\UNC\h\s",
    ),
)

ORDINARY = {
    **{f"a link to {target}": (DOCX, related("hyperlink", target)) for target in LINKS},
    **{f"a template at {target}": (DOCX, related("attachedTemplate", target)) for target in LOCAL},
    "fields that are common": (
        DOCX,
        body(
            code("PAG", "E ") + code("= ", "{", "PAGE", "}", " - 1") + code(' HYPERLINK "a" ') + code(" DATE ")
        ),
    ),
    "text about fields": (DOCX, body("<w:r><w:t>DDEAUTO, INCLUDETEXT and =WEBSERVICE(1)</w:t></w:r>")),
    "a fraction": (
        DOCX,
        body(
            '<m:f xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:num><m:t>|a|</m:t></m:num></m:f>'
        ),
    ),
    "a blank picture": (DOCX, {"word/media/a.bmp": b"BM" + bytes(MIB - 2), "word/media/b.png": b"\x89PNG" + os.urandom(MIB)}),
    "a drawing with a document type": (DOCX, {"word/media/a.svg": "<!DOCTYPE svg><svg/>"}),
    "custom data": (DOCX, {"customXml/item1.xml": "<a src='https://e.org'><oleObject/></a>"}),
    "a part without bytes": (DOCX, {"word/empty.xml": ""}),
    "formulas that are common": (
        XLSX,
        sheet(
            "".join(
                f"<x:f>{escape(text)}</x:f>"
                for text in ("SUM(A1:B2)", '"IMAGE("&A1', "'a|IMAGE('!A1", "Tab[a|b]", "MYIMAGE(1)", 'HYPERLINK("a")')
            )
        ),
    ),
    "a connection that waits": (XLSX, {"xl/connections.xml": '<connections><connection id="1" name="a"/></connections>'}),
    "a pivot table that is refreshed from a sheet": (
        XLSX,
        {"xl/p.xml": '<pivotCacheDefinition refreshOnLoad="1"><cacheSource type="worksheet"/></pivotCacheDefinition>'},
    ),
    "a button of a form": (XLSX, sheet('<x:controls><x:control shapeId="1" name="a"/></x:controls>')),
    "a chart with its workbook": (PPTX, chart(document(XLSX))),
    "a ribbon without callbacks": (DOCX, {"customUI/customUI.xml": '<customUI><ribbon startFromScratch="true"/></customUI>'}),
}  # fmt: skip


@pytest.mark.parametrize(("mime", "parts"), ORDINARY.values(), ids=ORDINARY)
def test_a_document_without_automatic_actions_is_accepted(mime: str, parts: dict[str, str | bytes]) -> None:
    assert judged(mime, parts) == TAKEN


def judged(mime: str, parts: dict[str, str | bytes]) -> FileVerdict:
    types_of = {
        "[Content_Types].xml": types(mime, '<Default Extension="xml" ContentType="application/xml"/>')
    }
    return judge_office(document(mime, {**types_of, **parts}), mime)


EXTERNAL, ACTIVE, OBJECT, MACROS = (
    f"ooxml_{name}" for name in ("external", "active_content", "embedded_object", "macros")
)
DDE = "cmd|'/C calc'!A0"
HOSTILE = {
    **{f"a template at {target!r}": (DOCX, related("attachedTemplate", target), EXTERNAL) for target in REMOTE},
    **{f"a picture at {target!r}": (DOCX, related("image", target), EXTERNAL) for target in REMOTE},
    **{
        f"a picture at {target!r} that is called a part": (DOCX, related("image", target, outside=False), EXTERNAL)
        for target in REMOTE
    },
    **{
        f"a field {name}": (DOCX, body(code(f" {name} a b ")), reason)
        for name, reason in {
            **dict.fromkeys(("DDE", "DDEAUTO", "ddeauto"), ACTIVE),
            **dict.fromkeys(("INCLUDETEXT", "IncludePicture", "INCLUDE", "IMPORT", "LINK", "DATABASE"), EXTERNAL),
        }.items()
    },
    "a field with a name that a field makes": (DOCX, body(code("{", "QUOTE 68 68 69", "}", " cmd")), ACTIVE),
    "a field with half of its name made": (DOCX, body(code("DD", "{", "QUOTE 69", "}", " cmd")), ACTIVE),
    "a field within a field": (DOCX, body(code("IF 1 = 1 ", "{", "DDE a b", "}")), ACTIVE),
    "a field without an end": (DOCX, body(code("DDE a").partition('<w:r><w:fldChar w:fldCharType="sep')[0]), ACTIVE),
    "a field in one element": (DOCX, body('<w:fldSimple w:instr=" dde a b "/>'), ACTIVE),
    "a field in a footer": (DOCX, {"word/footer1.xml": body(code("DDE a b"))["word/document.xml"]}, ACTIVE),
    "another document's text": (DOCX, body('<w:altChunk r:id="r0"/>'), OBJECT),
    "another document's text by relation": (DOCX, related("aFChunk", "a.html", outside=False), OBJECT),
    "an object that is linked": (DOCX, body('<o:OLEObject xmlns:o="o" Type="Link"/>'), OBJECT),
    "an object of a slide": (PPTX, {"ppt/slides/slide1.xml": "<p:s xmlns:p='p'><p:oleObj/></p:s>"}, OBJECT),
    "an object's relation": (DOCX, related("oleObject", "https://e.org/a"), OBJECT),
    "a link that is shown as a picture": (
        DOCX,
        {**body('<a:blip xmlns:a="a" r:link="r0"/>'), **related("hyperlink", "https://e.org/")},
        EXTERNAL,
    ),
    "a picture by its address": (DOCX, body('<v:imagedata xmlns:v="v" src="https://e.org/a"/>'), EXTERNAL),
    "a link that starts a program": (
        PPTX,
        {"ppt/slides/slide1.xml": "<a:hlinkClick xmlns:a='a' action='ppaction://program'/>"},
        ACTIVE,
    ),
    "a link that is followed under the pointer": (
        PPTX,
        {
            "ppt/slides/slide1.xml": f"<a:hlinkMouseOver xmlns:a='a' xmlns:r='{R}' r:id='r0'/>",
            **related("hyperlink", "file:///calc.exe", "ppt/slides/slide1.xml"),
        },
        EXTERNAL,
    ),
    **{
        f"a formula {text}": (XLSX, formula(text), reason)
        for text, reason in {
            "WEBSERVICE(A1)": EXTERNAL,
            '_xlfn.WebService ("http://e.org")': EXTERNAL,
            '1+_xlfn._xlws.IMAGE("http://e.org")': EXTERNAL,
            "'a\"b'!A1&WEBSERVICE(\"x\")": EXTERNAL,
            "Tab['#a]&'a\"b'!A1&WEBSERVICE(\"'\")": EXTERNAL,
            DDE: ACTIVE,
            'RTD("a",,"b")': ACTIVE,
            "_x0057_EBSERVICE(A1)": EXTERNAL,
            'DDE("soffice";"a";"b")': ACTIVE,
            'CALL("a","b")': ACTIVE,
        }.items()
    },
    "a formula of a name": (
        XLSX,
        {"xl/workbook.xml": '<w><definedName name="a">IMAGE(1)</definedName></w>'},
        EXTERNAL,
    ),
    "a name that runs": (XLSX, {"xl/workbook.xml": '<w><definedName name="_xlnm.Auto_Open"/></w>'}, MACROS),
    "a formula of a format": (XLSX, sheet(f"<x:cfRule><x:formula>{DDE}</x:formula></x:cfRule>"), ACTIVE),
    "a formula of a check": (XLSX, sheet("<x:formula1>IMAGE(A1)</x:formula1>"), EXTERNAL),
    "a formula of a newer format": (XLSX, sheet("<xm:f xmlns:xm='xm'>image(A1)</xm:f>"), EXTERNAL),
    "a formula of a threshold": (XLSX, sheet('<x:cfvo type="formula" val="IMAGE(A1)"/>'), EXTERNAL),
    "a formula of a column": (XLSX, {"xl/p.xml": '<cacheField formula="WEBSERVICE(1)"/>'}, EXTERNAL),
    "a connection that refreshes": (
        XLSX,
        {"xl/connections.xml": '<c><connection refreshOnLoad="true"/></c>'},
        EXTERNAL,
    ),
    "a connection that refreshes each minute": (XLSX, {"xl/c.xml": '<c><connection interval="1"/></c>'}, EXTERNAL),
    "a query that refreshes": (XLSX, {"xl/queryTables/q.xml": '<queryTable refreshOnLoad="1"/>'}, EXTERNAL),
    "a pivot table that refreshes": (
        XLSX,
        {"xl/p.xml": '<pivotCacheDefinition refreshOnLoad="1"><cacheSource type="external"/></pivotCacheDefinition>'},
        EXTERNAL,
    ),
    "another workbook by relation": (
        XLSX,
        related("externalLink", "a.xml", "xl/workbook.xml", outside=False),
        EXTERNAL,
    ),
    "a program of the web": (DOCX, {"word/webextensions/a.xml": "<a/>"}, ACTIVE),
    "a program of the web by relation": (DOCX, related("webextension", "a.xml", outside=False), ACTIVE),
    "a program of the web by element": (DOCX, {"word/a.xml": "<t:taskpanes xmlns:t='t'/>"}, ACTIVE),
    "a ribbon with callbacks": (DOCX, {"customUI/a.xml": "<customUI onLoad='a'/>"}, ACTIVE),
    "a ribbon with callbacks as data": (DOCX, {"customXml/item1.xml": "<customUI><b getLabel='a'/></customUI>"}, ACTIVE),
    "a document of macros under a name without": (
        DOCX,
        {"[Content_Types].xml": types(DOCX).replace("openxmlformats-officedocument.wordprocessingml.document.main", "ms-word.document.macroEnabled.main")},
        MACROS,
    ),
    "a workbook of a slide, and of no chart": (
        PPTX,
        related("package", "../embeddings/a.xlsx", "ppt/slides/slide1.xml", outside=False),
        OBJECT,
    ),
    "a chart with a workbook of macros": (PPTX, chart(document(XLSX, {"xl/vbaProject.bin": b"\1"})), MACROS),
    "a chart with a workbook that fetches": (PPTX, chart(document(XLSX, formula("IMAGE(1)"))), EXTERNAL),
    "folders by backslash": (DOCX, {"word\\footer.xml": "<a/>"}, "archive_name_ambiguous"),
    "a part that is no XML": (DOCX, body("<w:p>"), "ooxml_unreadable"),
}  # fmt: skip


def strict(text: str) -> str:
    for name, other in STRICT.items():
        text = text.replace(name, other)
    return text


FORMS: dict[str, Callable[[str], str | bytes]] = {
    "as it is": lambda text: text,
    "in UTF-16": lambda text: re.sub(r"^<\?xml.*?\?>", "", text).encode("utf-16"),
    "in UTF-16, the other way round": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "with another prefix": lambda text: re.sub(r"(?<=[<\s/:])[wx](?=[:=])", "ns0", text),
    "in strict namespaces": strict,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("mime", "parts", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_document_that_acts_on_opening_is_refused_in_every_form(
    mime: str, parts: dict[str, str | bytes], reason: str, form: Callable[[str], str | bytes]
) -> None:
    formed = {
        name: form(text) if isinstance(text, str) and name != "[Content_Types].xml" else text
        for name, text in parts.items()
    }
    verdict = judged(mime, formed)
    assert verdict.reasons[:1] == (reason,)
    assert verdict.message


@given(
    cuts=st.lists(st.integers(0, 40), max_size=6),
    name=st.sampled_from(["DDEAUTO", "dde", "IncludeText", "INCLUDEPICTURE", "LINK"]),
    before=st.text(" \t\n", max_size=3),
)
def test_a_field_is_found_however_its_code_is_split(cuts: list[int], name: str, before: str) -> None:
    whole = f'{before}{name} "c:\\\\a" "b"'
    places = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    assert not judged(DOCX, body(code(*pieces))).accepted


@pytest.mark.parametrize(
    "target", [*REMOTE, "mhtml:http://e.org", "ms-word:ofe|u|http://e.org", "\u200bhttp://e.org"]
)
def test_a_target_on_another_machine_is_remote(target: str) -> None:
    assert is_remote(target)


@pytest.mark.parametrize(
    "target", [*LOCAL, "a b.dotx", "file://C:/a", "file:/a", "file://localhost/a", "../a"]
)
def test_a_name_or_a_path_is_not_remote(target: str) -> None:
    assert not is_remote(target)
