"""MIME types by file name, independent of the host's own table, and the types that are text."""

from __future__ import annotations

import posixpath
from typing import Final

OCTET_STREAM: Final = "application/octet-stream"
PLAIN: Final = "text/plain"

_OOXML: Final = "application/vnd.openxmlformats-officedocument"

XLSX: Final = f"{_OOXML}.spreadsheetml.sheet"
DOCX: Final = f"{_OOXML}.wordprocessingml.document"
PPTX: Final = f"{_OOXML}.presentationml.presentation"
PDF: Final = "application/pdf"

_BY_MIME: Final = {
    # texts
    PLAIN: (
        "txt text log rst tex sty bib ini cfg conf env properties diff patch adoc asciidoc org po pot srt vtt sub lock mod sum"
    ),
    "text/markdown": "md markdown",
    "text/vnd.mermaid": "mmd mermaid",
    "text/html": "html htm",
    "text/css": "css",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/calendar": "ics",
    "text/vcard": "vcf",
    "text/javascript": "js mjs cjs",
    "text/x-typescript": "ts tsx jsx mts cts",
    "text/x-python": "py pyi pyw",
    "text/x-shellscript": "sh bash zsh fish ksh",
    "text/x-powershell": "ps1 psm1 psd1",
    "text/x-c": "c h cc cpp cxx hpp hh hxx m mm cu cuh",
    "text/x-java": "java",
    "text/x-go": "go",
    "text/x-rust": "rs",
    "text/x-r": "r rmd",
    "text/x-ruby": "rb rake gemspec",
    "text/x-php": "php phtml",
    "text/x-perl": "pl pm",
    "text/x-kotlin": "kt kts",
    "text/x-swift": "swift",
    "text/x-scala": "scala sc",
    "text/x-lua": "lua",
    "text/x-csharp": "cs csx",
    "text/x-source": (
        "as asm awk clj cljs cls cmake coffee cr d dart dot el elm erl es ex exs f f90 for fs fsx gd glsl gradle graphql groovy gv "
        "hcl hs hx inc jl less lisp lsp mk ml mli nim nix pas proto pug sass scm scss sol st styl sv svelte tcl tf thrift v "
        "vb vhdl vue wat wgsl zig"
    ),
    "text/xml": "xsd xsl xslt",
    "application/json": "json ipynb geojson webmanifest",
    "application/x-ndjson": "jsonl ndjson",
    "application/yaml": "yaml yml",
    "message/rfc822": "eml",
    "application/toml": "toml",
    "application/xml": "xml",
    "application/sql": "sql",
    # documents
    PDF: "pdf",
    XLSX: "xlsx",
    DOCX: "docx",
    PPTX: "pptx",
    "application/vnd.ms-excel.sheet.macroenabled.12": "xlsm",
    "application/vnd.ms-excel": "xls",
    "application/msword": "doc",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/rtf": "rtf",
    "application/epub+zip": "epub",
    # pictures, sound, film
    "image/png": "png",
    "image/jpeg": "jpg jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "image/bmp": "bmp",
    "image/tiff": "tif tiff",
    "image/vnd.microsoft.icon": "ico",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg oga",
    "audio/flac": "flac",
    "video/mp4": "mp4 m4v",
    "video/webm": "webm",
    # archives and data
    "application/zip": "zip",
    "application/x-tar": "tar",
    "application/gzip": "gz tgz",
    "application/x-bzip2": "bz2 tbz2",
    "application/x-xz": "xz txz",
    "application/x-7z-compressed": "7z",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow feather",
    "application/vnd.sqlite3": "sqlite sqlite3 db",
    "font/woff2": "woff2",
    "font/woff": "woff",
    "font/ttf": "ttf",
    "font/otf": "otf",
}
_ACTING: Final = (
    "ade adp app appimage application appref-ms bat chm cmd com command cpl crx desktop diagcab dll dmg dqy exe gadget hlp hta "
    "inetloc inf ins iqy iso isp jar jnlp job jse lib library-ms lnk mde msc msi msix msp mst ocx oqy pif pkg rdp reg rpm scf "
    "scpt scr sct search-ms searchconnector-ms service settingcontent-ms shb shs slk sys terminal theme themepack url vbe vbs "
    "vhd vhdx webloc website wll workflow ws wsc wsf wsh xll xpi"
)
ACTING: Final = frozenset(_ACTING.split())
"""Endings of files that a desktop runs or follows when it opens them, regardless of their bytes."""
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""The picture types that a model accepts."""

_BY_EXTENSION: Final = {
    f".{extension}": mime for mime, extensions in _BY_MIME.items() for extension in extensions.split()
}


_TEXT_SUFFIXES: Final = ("+json", "+xml")
_TEXT_MIMES: Final = frozenset(
    {
        "application/json",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
        "application/toml",
        "application/sql",
        "message/rfc822",
    }
)


def guess_mime(path: str) -> str:
    """Return the MIME type for a file name; `application/octet-stream` if unknown."""
    return _BY_EXTENSION.get(posixpath.splitext(path)[1].lower(), OCTET_STREAM)


def ends_acting(path: str) -> str:
    """Return the ending of a name that a desktop would act on; "" for any other name.

    Windows ignores dots and blanks at the end of a name, and reads the part after a colon as a stream.
    """
    for name in path.lower().split(":"):
        ending = posixpath.splitext(name.rstrip(" ."))[1].removeprefix(".")
        if ending in ACTING:
            return ending
    return ""


def is_binary(mime: str) -> bool:
    """Return True for a type with its own ending that is not text."""
    return mime in _BY_MIME and not is_text(mime)


def is_media(mime: str) -> bool:
    """Return True if a model accepts bytes of this type directly: a picture, or a PDF."""
    return mime in PICTURES or mime == PDF


def is_text(mime: str) -> bool:
    """Return True if bytes of this type are read as UTF-8 text."""
    kind = mime.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXT_MIMES or kind.endswith(_TEXT_SUFFIXES)
