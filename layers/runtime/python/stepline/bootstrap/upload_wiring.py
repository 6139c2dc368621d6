"""Wiring of the upload ports over AWS; only the functions that serve uploads load this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.upload.clamd import ClamdScanner
from stepline.adapters.upload.guard_duty import GuardDutyScanner
from stepline.adapters.upload.preflight import JailedPreflight
from stepline.adapters.upload.quarantine import S3Quarantine
from stepline.errors import InputError
from stepline.ingress.file_checks import FileChecks
from stepline.ingress.upload import UploadPorts
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES
from stepline.model.file.file_verdict import FileLimits

if TYPE_CHECKING:
    from stepline.log.bindings import Ports
    from stepline.ports.upload.quarantine import Scanner
    from stepline.settings import Settings


def uploads_on_aws(settings: Settings, ports: Ports) -> UploadPorts:
    """Wire uploads in addition to the loop's ports; nothing is connected yet. Raises InputError `bad_setting`."""
    return UploadPorts(
        ports=ports,
        quarantine=S3Quarantine(settings.bucket, ledger=ports.ledger),
        preflight=JailedPreflight(),
        scanner=scanner_of(settings, ports),
        limits=file_limits(settings),
    )


def checks_in_process(settings: Settings, ports: Ports) -> FileChecks:
    """Return the checks of files that a process attaches itself. Raises InputError `bad_setting`."""
    return FileChecks(
        preflight=JailedPreflight(), scanner=scanner_of(settings, ports), limits=file_limits(settings)
    )


def scanner_of(settings: Settings, ports: Ports) -> Scanner | None:
    """Return the malware scanner; None if none is configured. Raises InputError `bad_setting`."""
    match settings.av_scan:
        case "clamd":
            if not settings.clamav_host:
                raise InputError("CLAMAV_HOST names no scanner", code="bad_setting")
            return ClamdScanner(settings.clamav_host, settings.clamav_port, timeout_s=settings.av_timeout_s)
        case "guardduty":
            return GuardDutyScanner(
                settings.bucket, ports.clock, timeout_s=settings.av_timeout_s, ledger=ports.ledger
            )
        case _:
            return None


def file_limits(settings: Settings) -> FileLimits:
    """Return the maximum accepted sizes; none is larger than the limit of an attachment."""
    most = min(settings.message_max_bytes, ATTACHMENT_MAX_BYTES)
    return FileLimits(
        picture_max_bytes=min(settings.max_image_bytes, most),
        document_max_bytes=min(settings.max_doc_bytes, most),
        file_max_bytes=most,
    )
