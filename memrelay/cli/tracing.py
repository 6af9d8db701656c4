"""Starts the export of traces if the environment asks for it. It reads the standard variables."""

import importlib
from collections.abc import Mapping

from memrelay.cli.settings import process_environment
from memrelay.installation import install_extra
from memrelay.logs import get_logger

log = get_logger(__name__)
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# Values of CAPTURE that allow texts in spans.
CAPTURING = ("true", "span_only", "span_and_event")
# The state of this process.
_started: list[bool] = []


def start_tracing() -> bool:
    """Start the export of traces if an endpoint is set. Return whether this process exports them.

    Later calls return the same. A problem is logged and leaves tracing off.
    """
    if not _started:
        environ = process_environment()
        _started.append(wants_tracing(environ) and _start(environ))
    return _started[0]


def stop_tracing() -> None:
    """Send the last spans, if this process exports traces."""
    if any(_started):
        importlib.import_module("memrelay.tracing.provider").OPTIONS.stop()


def wants_tracing(environ: Mapping[str, str]) -> bool:
    """Return whether the environment names an endpoint, and does not switch traces off."""
    is_off = (
        environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    )
    return not is_off and any(environ.get(name) for name in ENDPOINTS)


def _start(environ: Mapping[str, str]) -> bool:
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), PROTOCOL)
    if protocol != PROTOCOL:
        log.warning(
            "tracing_off",
            reason=f"the protocol {protocol!r} is not supported",
            remedy=f"set {PROTOCOLS[0]} to {PROTOCOL}, and the endpoint to its port, mostly 4318",
        )
        return False
    try:
        provider = importlib.import_module("memrelay.tracing.provider")
        logs = importlib.import_module("memrelay.tracing.logs")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("opentelemetry"):
            raise
        log.warning(
            "tracing_off", reason="OpenTelemetry is not installed", remedy=install_extra("otel")
        )
        return False
    provider.start(
        has_sampler=bool(environ.get("OTEL_TRACES_SAMPLER")),
        captures_text=environ.get(CAPTURE, "").strip().lower() in CAPTURING,
    )
    logs.add_trace_ids()
    return True
