"""A TLS server that answers PONG to every message and can go silent; openssl creates its
certificates.
"""

import asyncio
import shutil
import ssl
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest


class Certificates:
    """The certificates of an authority, of a server for localhost, and of a client, as files in
    a folder.
    """

    def __init__(self, folder: Path) -> None:
        """Create them; skip the test if openssl is missing."""
        if shutil.which("openssl") is None:
            pytest.skip("certificates are made by openssl")
        self._folder = folder
        self.ca = self._make("ca", "-x509", "-subj", "/CN=the tests' authority")
        signed = (
            "-x509",
            "-CA",
            self.ca,
            "-CAkey",
            self.key_of(self.ca),
            "-subj",
            "/CN=localhost",
            "-addext",
        )
        self.server = self._make("server", *signed, "subjectAltName=DNS:localhost,IP:127.0.0.1")
        self.stranger = self._make("stranger", *signed, "subjectAltName=DNS:elsewhere.example")
        self.client = self._make("client", *signed, "extendedKeyUsage=clientAuth")

    def key_of(self, certificate: str) -> str:
        """Return the key file."""
        return certificate.removesuffix(".crt") + ".key"

    def _make(self, name: str, *how: str) -> str:
        made = str(self._folder / f"{name}.crt")
        request = [
            "openssl",
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-keyout",
            self.key_of(made),
            "-out",
            made,
        ]
        subprocess.run([*request, *how], check=True, capture_output=True)
        return made


class TlsServer:
    """A TLS server in its own thread. Use it as a context."""

    def __init__(
        self, certificates: Certificates, certificate: str = "", *, asks: bool = False
    ) -> None:
        """Present that certificate, by default the one for localhost; if `asks` is true, require
        one from clients.
        """
        shown = certificate or certificates.server
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.ca)
        self._context.load_cert_chain(shown, certificates.key_of(shown))
        self._context.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE
        self._loop, self._goes_on = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tls")
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=self._context)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._goes_on.set()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def fall_silent(self) -> None:
        """Read on, but send nothing more, not even a close alert."""
        self._loop.call_soon_threadsafe(self._goes_on.wait)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1 << 16):
                writer.write(b"+PONG\r\n")
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
