"""Folders of skills on disk, as a bundle or another product's author leaves them."""

from pathlib import Path
from textwrap import dedent

FOREIGN = {
    "pdf-processing/SKILL.md": """\
        ---
        name: pdf-processing
        description: Extract text and tables from PDF files, fill forms, merge documents. Use when: the user names a PDF.
        license: Proprietary. LICENSE.txt has complete terms
        compatibility: Designed for another product; needs Python 3.14+ and pypdf
        allowed-tools: Bash(git:*) Read
        model: inherit
        metadata:
          author: example-org
          version: "1.0"
          requires: {bins: [pdftotext]}
        ---

        # PDF processing

        For forms see [FORMS.md](references/FORMS.md), and run `scripts/extract.py`.
        """,
    "pdf-processing/LICENSE.txt": "All rights reserved.\n",
    "pdf-processing/references/FORMS.md": "# Forms\n\nFlatten them last.\n",
    "pdf-processing/scripts/extract.py": "print('text')\n",
    "pdf-processing/assets/seal.png": b"\x89PNG\r\n\x1a\n\xff",
}
"""A skill of another product, in the form of the published convention."""


def write_skills(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a root; texts lose their common indentation."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else dedent(content).encode())
    return root
