"""PDFs: an action that needs a click is a link, one that starts by itself is refused in every form and spelling."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.file.file_verdict import TAKEN
from stepline.preflight.judge_pdf import judge_pdf
from tests.support.pdf_forms import (
    FORMS,
    HEAD,
    JUNK,
    SPELLINGS,
    Objects,
    catalog,
    packed,
    plain,
    spelt,
    stream,
)

INVOICE = '<?xml version="1.0"?><rsm:CrossIndustryInvoice xmlns:rsm="urn"><rsm:A>é</rsm:A></rsm:CrossIndustryInvoice>'


def action(text: str) -> str:
    return f"<< /Type /Action {text} >>"


def click(text: str) -> str:
    return f"/Annots [ << /Type /Annot /Subtype /Link /Rect [ 0 0 9 9 ] /A {action(text)} >> ]"


def attached(xml: str | bytes = INVOICE, name: str = "factur-x.xml", more: str = "") -> Objects:
    """Return an invoice, as its standard writes it."""
    return catalog(
        f"/AF [ 5 0 R ] /Names << /EmbeddedFiles << /Names [ (a) 5 0 R ] >> >> {more}",
        o5=f"<< /Type /Filespec /F ({name}) /UF ({name}) /AFRelationship /Alternative /EF << /F 6 0 R /UF 6 0 R >> >>",
        o6=stream("/Type /EmbeddedFile /Subtype /text#2Fxml", xml),
    )


Form = Callable[[Objects], bytes]
Place = Callable[[str], Objects]
SCRIPT = "/S /JavaScript /JS (app.alert)"
ORDINARY = {
    "a page": catalog(),
    "a link": catalog(page=click("/S /URI /URI (https://example.org)")),
    "a link to a telephone": catalog(page=click("/S /URI /URI (tel:+4912)")),
    "a link to another PDF": catalog(page=click("/S /GoToR /F (other.pdf) /D [ 0 /Fit ]")),
    "a link to another PDF by its path": catalog(page=click("/S /GoToR /F << /Type /Filespec /F (/C/a.pdf) >>")),
    "a page that is shown first": catalog("/OpenAction [ 3 0 R /Fit ]"),
    "an action that shows a page": catalog("/OpenAction << /S /GoTo /D [ 3 0 R /Fit ] >>"),
    "a page with a link, shown first": catalog(
        "/OpenAction 5 0 R", click("/S /URI /URI (https://example.org)"), o5="[ 3 0 R /Fit ]"
    ),
    "a link on release of a button": catalog(page="/Annots [ << /AA << /U << /S /URI /URI (https://e.org) >> >> >> ]"),
    "a name within a string": catalog("/Lang (/S /JavaScript /JS /Launch /EmbeddedFile)"),
    "a name within text": catalog(page="/Contents 5 0 R", o5=stream("", "BT (9 0 obj << /S /JavaScript /JS \\(a\\)) Tj ET")),
    "no files and no scripts in their places": catalog(
        "/Names << /EmbeddedFiles << /Names [ ] >> /JavaScript << /Names [ ] >> >>"
    ),
    "a form": catalog("/AcroForm << /Fields [ 5 0 R ] >>", o5="<< /FT /Tx /T (a) /V (b) /F 4 >>"),
    "a font that is called like a script": catalog(page="/Resources << /Font << /JS 5 0 R >> >>", o5="<< /Type /Font >>"),
    "an invoice": attached(),
    "an invoice of the first kind": attached(
        "<CrossIndustryDocument xmlns='urn'/>".encode("utf-16"), "ZUGFeRD-invoice.xml"
    ),
}  # fmt: skip


@pytest.mark.parametrize("objects", ORDINARY.values(), ids=ORDINARY)
def test_a_pdf_without_automatic_actions_is_accepted(objects: Objects) -> None:
    assert judge_pdf(plain(objects)) == TAKEN


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "objects", [ORDINARY["a link"], ORDINARY["an invoice"]], ids=["a link", "an invoice"]
)
def test_every_form_of_a_harmless_pdf_is_accepted(objects: Objects, form: Form) -> None:
    assert judge_pdf(form(objects)) == TAKEN


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_harmless_pdf_is_accepted(spelling: str) -> None:
    assert judge_pdf(plain(spelt(ORDINARY["a link"], spelling))) == TAKEN


ACTIVE, EMBEDDED = "pdf_active_content", "pdf_embedded_file"
STARTED = {
    "a script": SCRIPT,
    "a script in a stream": "/S /JavaScript /JS 9 0 R",
    "a script of a rendition": "/S /Rendition /OP 0 /JS (app.alert)",
    "a program": "/S /Launch /F (cmd.exe)",
    "a program of Windows": "/S /Launch /Win << /F (cmd.exe) >>",
    "a form that is sent": "/S /SubmitForm /F (a)",
    "data that are read": "/S /ImportData /F (a.fdf)",
    "a file within": "/S /GoToE /T << /R /C /N (a) >>",
    "a PDF on a share": "/S /GoToR /F (//host/share/a.pdf) /D [ 0 /Fit ]",
    "a PDF on a share, by backslashes": "/S /GoToR /F (\\\\\\\\host\\\\a.pdf)",
    "a PDF at an address": "/S /GoToR /F << /FS /URL /F (https://e.org/a.pdf) >>",
    "a script as an address": "/S /URI /URI (JavaScript:alert)",
}
BY_ITSELF = {"an address": "/S /URI /URI (https://e.org)", "another PDF": "/S /GoToR /F (a.pdf)"}
PLACES: dict[str, Place] = {
    "on opening": lambda text: catalog(f"/OpenAction {text}"),
    "on opening, by reference": lambda text: catalog("/OpenAction 5 0 R", o5=text),
    "on opening, among several": lambda text: catalog(f"/OpenAction [ << /S /Named /N /Print >> {text} ]"),
    "after another one": lambda text: catalog("/OpenAction << /S /GoTo /D [ 3 0 R /Fit ] /Next [ 5 0 R ] >>", o5=text),
    "on closing": lambda text: catalog(f"/AA << /WC {text} >>"),
    "when a page is shown": lambda text: catalog(page=f"/AA << /O {text} >>"),
    "under the pointer": lambda text: catalog(page=f"/Annots [ << /Type /Annot /AA << /E {text} >> >> ]"),
    "when a field is filled": lambda text: catalog(
        "/AcroForm << /Fields [ 5 0 R ] >>", o5="<< /FT /Tx /T (a) /AA 6 0 R >>", o6=f"<< /K {text} >>"
    ),
    "in a presentation": lambda text: catalog(page=f"/PresSteps << /Type /NavNode /NA {text} >>"),
}  # fmt: skip
CLICKED: dict[str, Place] = {
    "by a link": lambda text: catalog(page=f"/Annots [ << /Type /Annot /Subtype /Link /A {text} >> ]"),
    "by an outline": lambda text: catalog("/Outlines << /First 5 0 R >>", o5=f"<< /Title (a) /A {text} >>"),
    "by name": lambda text: catalog(f"/Names << /JavaScript << /Kids [ << /Names [ (a) {text} ] >> ] >> >>"),
}
HOSTILE = {
    **{
        f"{what}, {where}": (place(action(text)), ACTIVE)
        for where, place in {**PLACES, **CLICKED}.items()
        for what, text in STARTED.items()
    },
    **{
        f"{what}, {where}": (place(action(text)), ACTIVE)
        for where, place in PLACES.items()
        for what, text in BY_ITSELF.items()
    },
    "a type that is written elsewhere": (
        catalog("/OpenAction << /S 5 0 R /F (cmd) >>", o5="/Launch"),
        ACTIVE,
    ),
    "a form of XML": (catalog("/AcroForm << /Fields [ ] /XFA 5 0 R >>", o5=stream("", "<xdp/>")), ACTIVE),
    "a rich medium": (catalog(page="/Annots [ << /Type /Annot /Subtype /RichMedia >> ]"), ACTIVE),
    "a scene with a script": (catalog(page="/Annots [ << /Subtype /Foo /X << /OnInstantiate 5 0 R >> >> ]"), ACTIVE),
    "a stream from elsewhere": (catalog(page="/Contents 5 0 R", o5=stream("/F (a.bin)", "")), ACTIVE),
    "a file": (attached(name="a.exe"), EMBEDDED),
    "a file that is called an invoice": (attached("MZ"), EMBEDDED),
    "XML that is called an invoice": (attached("<html/>"), EMBEDDED),
    "an invoice with entities": (attached("<!DOCTYPE a><CrossIndustryInvoice/>"), EMBEDDED),
    "an invoice, and a file": (
        {**attached(), 7: stream("/Type /EmbeddedFile", "a")},
        EMBEDDED,
    ),
    "an invoice with two names": (
        {**attached(), 5: "<< /F (factur-x.xml) /UF (a.exe) /EF << /F 6 0 R >> >>"},
        EMBEDDED,
    ),
    "an invoice of two files": (
        {
            **attached(),
            5: "<< /F (factur-x.xml) /UF (factur-x.xml) /EF << /F 6 0 R /UF 7 0 R >> >>",
            7: stream("", INVOICE),
        },
        EMBEDDED,
    ),
    "a collection": (attached(more="/Collection << /View /D >>"), EMBEDDED),
    "a file that no name leads to": (
        catalog(page="/AF [ << /F (a) /EF << /F 5 0 R >> >> ]", o5=stream("", "a")),
        EMBEDDED,
    ),
    "a file that is related to a name": (
        catalog("/AF [ << /F (a) /RF << /F [ (a) 5 0 R ] >> >> ]", o5=stream("", "a")),
        EMBEDDED,
    ),
    "a file on a page": (catalog(page="/Annots [ << /Subtype /FileAttachment /FS << /F (a) >> >> ]"), EMBEDDED),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_pdf_with_an_automatic_action_is_refused(objects: Objects, reason: str) -> None:
    verdict = judge_pdf(plain(objects))
    assert verdict.reasons == (reason,)
    assert verdict.message


SAMPLE = ["a script in a stream, on opening, by reference", "an address, when a field is filled", "a file"]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", SAMPLE)
def test_no_form_or_spelling_hides_an_action(name: str, spelling: str, form: Form) -> None:
    objects, reason = HOSTILE[name]
    assert judge_pdf(form(spelt(objects, spelling))).reasons == (reason,)


@given(
    form=st.sampled_from([*FORMS.values()]),
    spelling=st.sampled_from([*SPELLINGS]),
    hostile=st.sampled_from([*HOSTILE.values()]),
)
def test_no_combination_hides_an_action(form: Form, spelling: str, hostile: tuple[Objects, str]) -> None:
    objects, reason = hostile
    assert judge_pdf(form(spelt(objects, spelling))).reasons == (reason,)


ODD = {
    "a key twice": (plain(catalog("/OpenAction << /S /Launch /S /GoTo /F (cmd) >>")), "pdf_obfuscated"),
    "a packed object in another's place": (
        packed({**catalog(), 5: action(SCRIPT)}, "not at all").replace(b"5 ", b"8 ", 1),
        "pdf_unreadable",
    ),
    "objects that are packed in an unknown way": (
        packed(catalog(), "not at all").replace(b"/N 3", b"/N 3 /Filter /JBIG2Decode"),
        "pdf_unreadable",
    ),
    "objects that are packed and break off": (
        re.sub(rb"(stream\nx.{40}).{9}", rb"\1" + bytes(9), packed(catalog()), count=1, flags=re.DOTALL),
        "pdf_unreadable",
    ),
    "an object that no table lists": (
        plain(catalog()).replace(b"xref\n", b"77 0 obj\n" + action(SCRIPT).encode() + b"\nendobj\nxref\n", 1),
        ACTIVE,
    ),
    "a page of the web before it": (b"<html>\n" + plain(catalog()), "polyglot"),
    "a program before it": (b"MZ\n" + plain(catalog()), "polyglot"),
    "tables that say different things": (
        JUNK + plain(catalog(f"/OpenAction {action(SCRIPT)}"), start=HEAD).replace(b"%PDF-1.7", b"%PDF-1.4", 1),
        ACTIVE,
    ),
    "no end": (plain(catalog())[:-8], "pdf_unreadable"),
    "nothing but a head": (HEAD + b"%%EOF", "pdf_unreadable"),
    "a page tree in a circle": (
        plain({**catalog(), 2: "<< /Type /Pages /Kids [ 2 0 R ] /Count 1 >>"}),
        "pdf_unreadable",
    ),
    "a password": (
        plain(
            {**catalog(), 5: "<< /Filter /Standard /V 1 /R 2 /P -4 /O <" + "00" * 32 + "> /U <" + "00" * 32 + "> >>"},
            trailer="/Encrypt 5 0 R /ID [ <00> <00> ]",
        ),
        "pdf_encrypted",
    ),
    "lists without an end": (plain(catalog(f"/A {'[' * 5_000}")), "pdf_unreadable"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "reason"), ODD.values(), ids=ODD)
def test_an_ambiguous_pdf_is_refused_by_name(data: bytes, reason: str) -> None:
    assert judge_pdf(data).reasons == (reason,)


@given(
    start=st.sampled_from([plain(attached()), packed(attached(), "predicted")]),
    at=st.integers(0, 3_000),
    put=st.binary(max_size=8),
)
def test_a_spoilt_file_gets_a_verdict(start: bytes, at: int, put: bytes) -> None:
    at %= len(start)
    verdict = judge_pdf(start[:at] + put + start[at + len(put) :])
    assert verdict.accepted or verdict.reasons
