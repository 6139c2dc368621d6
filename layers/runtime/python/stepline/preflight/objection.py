"""The first rule that refuses a file from outside, raised where the violation is found."""

from __future__ import annotations

from typing import Final

from stepline.model.file.file_verdict import reject_file

MACROS: Final = ("ooxml_macros", "it has macros")
OBJECT: Final = ("ooxml_embedded_object", "another file or a control is in it")
EXTERNAL: Final = ("ooxml_external", "it fetches something from outside when it is opened")
ACTIVE: Final = ("ooxml_active_content", "it starts something when it is opened")
DOCTYPE: Final = ("ooxml_document_type", "its XML declares a document type")


class Objection(Exception):  # noqa: N818 - not an error: it ends one check and never leaves the judges
    """One rule's refusal: a stable code, and a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.verdict = reject_file(reason, message)
