"""PDFs of given objects, written in every form that a PDF file may have."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable

HEAD = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
Objects = dict[int, str]

PAGE, PACKED_IN, TABLE_IN = 3, 20, 21


def catalog(more: str = "", page: str = "", **objects: str) -> Objects:
    """Return the objects of a page: 1 to 3, with entries more, and others as `o5="…"`."""
    return {
        1: f"<< /Type /Catalog /Pages 2 0 R {more} >>",
        2: "<< /Type /Pages /Kids [ 3 0 R ] /Count 1 >>",
        3: f"<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 72 72 ] {page} >>",
        **{int(name[1:]): text for name, text in objects.items()},
    }


def stream(entries: str, data: str | bytes) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return f"<< {entries} /Length {len(raw)} >>\nstream\n{raw.decode('latin-1')}\nendstream"


def _bodies(objects: Objects, start: bytes) -> tuple[bytes, dict[int, int]]:
    out, places = start, {}
    for number, text in objects.items():
        places[number] = len(out)
        out += f"{number} 0 obj\n{text}\nendobj\n".encode("latin-1")
    return out, places


def _table(places: dict[int, int], free: tuple[int, ...] = ()) -> bytes:
    rows = {0: b"0000000000 65535 f \n", **dict.fromkeys(free, b"0000000000 00000 f \n")}
    rows |= {number: b"%010d 00000 n \n" % at for number, at in places.items()}
    return b"xref\n" + b"".join(b"%d 1\n" % number + rows[number] for number in sorted(rows))


def _end(trailer: str, at: int) -> bytes:
    return f"trailer\n<< {trailer} >>\nstartxref\n{at}\n%%EOF\n".encode()


def plain(objects: Objects, *, trailer: str = "", start: bytes = HEAD, startxref: int | None = None) -> bytes:
    """Return a file with a table, the only form until 2003 and still a common one."""
    out, places = _bodies(objects, start)
    at = len(out) if startxref is None else startxref
    return out + _table(places) + _end(f"/Root 1 0 R /Size 24 {trailer}", at)


def _predicted(data: bytes, columns: int) -> bytes:
    """Return rows as the "up" filter of PNG writes them."""
    data += b" " * (-len(data) % columns)
    before, out = bytes(columns), b""
    for at in range(0, len(data), columns):
        row = data[at : at + columns]
        out += b"\2" + bytes((one - two) % 256 for one, two in zip(row, before, strict=True))
        before = row
    return out


def _ascii85(data: bytes) -> bytes:
    return base64.a85encode(data) + b"~>"


PACKINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "deflated": ("/Filter /FlateDecode", zlib.compress),
    "predicted": (
        "/Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 7 >>",
        lambda data: zlib.compress(_predicted(data, 7)),
    ),
    "in two filters": ("/Filter [ /ASCII85Decode /FlateDecode ]", lambda data: _ascii85(zlib.compress(data))),
    "not at all": ("", lambda data: data),
}


def _packed_object(objects: Objects, packing: str) -> str:
    listed, body = [], ""
    for number, text in objects.items():
        listed.append(f"{number} {len(body)}")
        body += text + "\n"
    head = " ".join(listed) + "\n"
    entries, pack = PACKINGS[packing]
    data = pack((head + body).encode("latin-1"))
    return stream(f"/Type /ObjStm /N {len(objects)} /First {len(head)} {entries}", data)


def _rows(places: dict[int, int], packed: Objects, packed_in: int = PACKED_IN) -> tuple[str, bytes]:
    """Return the entries of a table as a stream, and its bytes."""
    rows = {0: (0, 0, 0), **{number: (1, at, 0) for number, at in places.items()}}
    rows |= {number: (2, packed_in, index) for index, number in enumerate(packed)}
    data = b"".join(
        kind.to_bytes(1) + one.to_bytes(4) + two.to_bytes(2) for _, (kind, one, two) in sorted(rows.items())
    )
    index = " ".join(f"{number} 1" for number in sorted(rows))
    return f"/Type /XRef /Root 1 0 R /Size 24 /W [ 1 4 2 ] /Index [ {index} ]", data


def packed(
    objects: Objects,
    packing: str = "deflated",
    *,
    start: bytes = HEAD,
    more: str = "",
    packed_in: int = PACKED_IN,
) -> bytes:
    """Return a file whose objects, but for streams, are in a stream of objects."""
    inside = {number: text for number, text in objects.items() if "stream\n" not in text}
    outside = {number: text for number, text in objects.items() if number not in inside}
    out, places = _bodies({**outside, packed_in: _packed_object(inside, packing)}, start)
    places[packed_in + 1] = at = len(out)
    entries, data = _rows(places, inside, packed_in)
    return (
        _bodies({packed_in + 1: stream(f"{entries} {more}", data)}, out)[0]
        + f"startxref\n{at}\n%%EOF\n".encode()
    )


def updated(objects: Objects) -> bytes:
    """Return a file without the objects, with twelve updates that add them."""
    out = plain(catalog())
    for _ in range(12):
        last = int(out.rpartition(b"startxref\n")[2].split()[0])
        out, places = _bodies(objects, out)
        out += _table(places) + _end(f"/Root 1 0 R /Size 24 /Prev {last}", len(out))
    return out


def packed_later(objects: Objects) -> bytes:
    """Return a file of packed objects without these, with an update that adds them, packed again."""
    out = packed(catalog())
    last = int(out.rpartition(b"startxref\n")[2].split()[0])
    return packed(objects, start=out, more=f"/Prev {last}", packed_in=TABLE_IN + 1)


def hybrid(objects: Objects) -> bytes:
    """Return a file with a table for old readers, in which all but a page is free, and one for newer ones."""
    inside = {number: text for number, text in objects.items() if "stream\n" not in text and number > PAGE}
    outside = {number: text for number, text in objects.items() if number not in inside}
    out, places = _bodies({**outside, PACKED_IN: _packed_object(inside, "deflated")}, HEAD)
    newer = len(out)
    entries, data = _rows({PACKED_IN: places[PACKED_IN]}, inside)
    out = _bodies({TABLE_IN: stream(entries, data)}, out)[0]
    table = _table({**places, TABLE_IN: newer}, free=tuple(inside))
    return out + table + _end(f"/Root 1 0 R /Size 24 /XRefStm {newer}", len(out))


JUNK = b"\x1b%-12345X@PJL\r\n" * 20
FORMS: dict[str, Callable[[Objects], bytes]] = {
    "with a table": plain,
    **{f"packed, {name}": lambda objects, name=name: packed(objects, name) for name in PACKINGS},  # type: ignore[misc]
    "added later": updated,
    "packed, and added later": packed_later,
    "hybrid": hybrid,
    "without a table": lambda objects: plain(objects, startxref=9),
    "after other bytes": lambda objects: JUNK + plain(objects),
    "after other bytes that count": lambda objects: plain(objects, start=JUNK + HEAD),
}


def _escaped(text: str) -> str:
    return re.sub(
        r"/([A-Za-z0-9]+)",
        lambda found: "/" + "".join(f"#{ord(c):02x}" if n % 2 else c for n, c in enumerate(found[1])),
        text,
    )


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as usual": lambda text: text,
    "escaped": _escaped,
    "with comments": lambda text: text.replace(" ", " %) >> (\r\n\t"),
    "without blanks": lambda text: re.sub(r" ?(/|<<|>>|\[|\]) ?", r"\1", text),
    "with blanks of every kind": lambda text: text.replace(" ", "\0\f\n\t "),
}


def spelt(objects: Objects, spelling: str) -> Objects:
    """Return the objects in another spelling; streams are unchanged."""
    spell = SPELLINGS[spelling]
    return {number: text if "stream\n" in text else spell(text) for number, text in objects.items()}
