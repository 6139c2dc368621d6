"""The parts of an agent in AWS, each of which refers only to earlier ones: in stacks of a stage, or in constructs of an agent."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from constructs import Construct

from stepline_cdk.code import Code
from stepline_cdk.edge import Edge
from stepline_cdk.environment import packaged_files
from stepline_cdk.execution import Execution
from stepline_cdk.ingress import Ingress
from stepline_cdk.loop import Loop
from stepline_cdk.owned import NOTHING, Owned
from stepline_cdk.page import Page
from stepline_cdk.page_files import PageFiles
from stepline_cdk.stage import Stage
from stepline_cdk.state import State


class Parts:
    """The parts; `edge` and `page` exist with a page, `execution` where programs run in tasks."""

    def __init__(
        self,
        place: Callable[[str], Construct],
        stage: Stage,
        *,
        code: Code,
        packages: tuple[str, ...],
        folder: Path,
        files: PageFiles | None = None,
        derived: Collection[str] = (),
        owned: Owned = NOTHING,
    ) -> None:
        """Add each part to the scope that `place` makes for its name; a copy of the code may be in `folder`, data in what is `owned`.

        Raises InputError of a wrong descriptor, and `environment_too_large`.
        """
        code = code.holding(packaged_files(stage), folder)
        self.edge = Edge(place("edge"), stage, files) if files else None
        page_origin = self.edge.origin if self.edge else ""
        self.state = State(place("state"), stage, page_origin=page_origin, derived=derived, owned=owned)
        self.ingress = Ingress(
            place("ingress"),
            stage,
            state=self.state,
            code=code,
            page_origin=page_origin,
            dashboards=files.dashboards if files else (),
        )
        self.execution = (
            Execution(place("exec"), stage, requirements=code.requirements) if stage.has_tasks else None
        )
        self.loop = Loop(
            place("loop"),
            stage,
            state=self.state,
            ingress=self.ingress,
            code=code,
            packages=packages,
            execution=self.execution,
        )
        self.page = (
            Page(place("page"), stage, files=files, edge=self.edge, state=self.state, ingress=self.ingress)
            if files and self.edge
            else None
        )
