"""A folder with a knowledge space, built as the command does."""

from textwrap import dedent

from stepline import Knowledge
from stepline.local.knowledge.build_index import build_index


class Space:
    """Files of a folder, and `built` and `knowledge` of it; `said` is the progress."""

    def __init__(self, folder):
        self.folder = folder
        self.said = []

    def write(self, files):
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())

    def build(self):
        return build_index(self.folder, self.said.append)

    @property
    def knowledge(self):
        return Knowledge(self.folder)

    def paths(self, query, **more):
        return [row["path"] for row in self.knowledge.search(query, **more)]
