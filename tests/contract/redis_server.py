"""A real Redis server of one test, which can be stopped and restarted."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.free_port import free_port

PROGRAM = shutil.which("redis-server")
PASSWORD = "not-for-logs"


class RedisServer:
    """One server on a port of its own; the port stays its own while it is down."""

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        if PROGRAM is None:
            pytest.skip("redis-server is not installed")
        self._program = PROGRAM
        self._folder = folder
        self._tls = tls
        self._process: subprocess.Popen[str] | None = None
        self.port = free_port()
        if tls:
            write_certificates(folder)

    @property
    def url(self) -> str:
        if self._tls:
            return f"rediss://:{PASSWORD}@127.0.0.1:{self.port}/0?ssl_ca_certs={self._folder / 'ca.pem'}"
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and return once it answers."""
        where = ["--port", str(self.port)]
        if self._tls:
            where = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            where += ["--tls-cert-file", str(self._folder / "server.pem")]
            where += ["--tls-key-file", str(self._folder / "server.key")]
            where += ["--tls-ca-cert-file", str(self._folder / "ca.pem")]
        kept = ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        self._process = subprocess.Popen(
            [self._program, *where, "--bind", "127.0.0.1", "--requirepass", PASSWORD, *kept],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        for line in self._process.stdout:
            if "eady to accept connections" in line:
                return
        raise AssertionError("redis-server did not start")

    def stop(self) -> None:
        """Stop, with every connection."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout
            process.stdout.close()

    def restart(self) -> None:
        self.stop()
        self.start()


def write_certificates(folder: Path) -> None:
    """Write `ca.pem` of an unknown authority, and `server.pem` and `server.key` of 127.0.0.1, signed by it."""
    ours, servers = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for tests")])
    now = datetime.now(UTC)

    def certificate(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    authority = certificate(name, ours).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    there = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    server = certificate(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server for tests")]), servers
    ).add_extension(there, critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.sign(ours, hashes.SHA256()).public_bytes(pem))
    (folder / "server.pem").write_bytes(server.sign(ours, hashes.SHA256()).public_bytes(pem))
    (folder / "server.key").write_bytes(
        servers.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
