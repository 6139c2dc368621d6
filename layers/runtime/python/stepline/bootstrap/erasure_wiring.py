"""Wiring of the erasure ports over AWS; only the functions that delete load this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.aws.table import Table
from stepline.adapters.aws.tenancy.eraser_call import EraserCall
from stepline.adapters.aws.tenancy.erasure import AwsErasure, DynamoUserErasures
from stepline.ingress.erase_user import ErasurePorts

if TYPE_CHECKING:
    from stepline.log.bindings import Ports
    from stepline.settings import Settings


def erasure_on_aws(settings: Settings, ports: Ports) -> ErasurePorts:
    """Wire erasure in addition to the loop's ports; nothing is connected before its first use."""
    table = Table(settings.table, ledger=ports.ledger)
    return ErasurePorts(
        ports=ports,
        erasure=ports.erasure or AwsErasure(table, settings.bucket, ports.clock),
        users=DynamoUserErasures(table, ports.clock),
        wake=EraserCall(settings.eraser_arn),
    )
