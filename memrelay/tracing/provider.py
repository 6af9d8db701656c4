"""Starts the export of traces over OTLP and HTTP.

The SDK reads the standard variables, such as OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_TRACES_SAMPLER.
"""

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from zlib import crc32

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased

NAME = "memrelay"
# The SDK names a service so if the environment does not.
UNNAMED = "unknown_service"
# The share of the traces that begin in Memrelay and are exported, unless OTEL_TRACES_SAMPLER is
# set.
ROOT_RATIO = 0.01
# How long the end of the process waits for the receiver.
CLOSE_S = 2.0
TRACER = trace.get_tracer(NAME, version(NAME))
# Descriptions of the standard samplers.
PARENT_BASED = "ParentBased{root:"
RATIO = re.compile(r"TraceIdRatioBased\{([0-9.e-]+)\}")
_next_id = threading.local()


@dataclass(slots=True)
class TracingOptions:
    """What this process exports. `start` sets it.

    A new trace is not sampled if the lowest 64 bits of its id are `root_bound` or more. Without
    `follows_parent`, the flags of a trace context do not decide. `captures_text` is set if spans
    may have texts. `stop` ends the export.
    """

    root_bound: int = 1 << 64
    follows_parent: bool = False
    captures_text: bool = False
    stop: Callable[[], None] = lambda: None


OPTIONS = TracingOptions()


class DerivedIds(RandomIdGenerator):
    """Random ids, except for a trace that `start_root` begins."""

    def generate_trace_id(self) -> int:
        """Return the next trace id."""
        derived: int = getattr(_next_id, "value", 0)
        return derived or super().generate_trace_id()


def start(*, has_sampler: bool, captures_text: bool) -> None:
    """Export the spans of this process from now on, until it ends. Call it once.

    `has_sampler` is set if the environment names a sampler.
    """
    provider = TracerProvider(
        None if has_sampler else ParentBased(TraceIdRatioBased(ROOT_RATIO)),
        make_resource(),
        id_generator=DerivedIds(),
    )
    OPTIONS.captures_text = captures_text
    OPTIONS.root_bound, OPTIONS.follows_parent = find_bound(provider.sampler)
    exporter = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    OPTIONS.stop = partial(_stop, provider, exporter)
    # It warns at each attempt to reach the receiver, and reports an error at the end.
    logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.ERROR)


def _stop(provider: TracerProvider, exporter: OTLPSpanExporter) -> None:
    """Send the last spans. Without an answer of the receiver, give up after CLOSE_S."""
    timer = threading.Timer(CLOSE_S, exporter.shutdown)
    timer.daemon = True
    timer.start()
    provider.shutdown()
    timer.cancel()


def make_resource() -> Resource:
    """Return the resource of all spans. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES count."""
    resource = Resource.create({SERVICE_VERSION: version(NAME)})
    if str(resource.attributes[SERVICE_NAME]).startswith(UNNAMED):
        resource = resource.merge(Resource({SERVICE_NAME: NAME}))
    return resource


def find_bound(sampler: Sampler) -> tuple[int, bool]:
    """Return the `root_bound` and `follows_parent` of a sampler.

    They save asking it about each input. A sampler of an unknown kind is asked.
    """
    description = sampler.get_description()
    follows_parent = description.startswith(PARENT_BASED)
    if ratio := RATIO.match(description.removeprefix(PARENT_BASED)):
        return TraceIdRatioBased(float(ratio[1])).bound, follows_parent
    return 1 << 64, follows_parent


def derive_trace_id(uid: str, ident: str) -> int:
    """Return the trace id of an input that came without a trace: the same in every run of it.

    `ident` is the id of the input with which the cascade began. Its checksum is in the bits by
    which a sampler decides, so that `may_begin` costs little.
    """
    rest = int.from_bytes(blake2b(f"{uid}/{ident}".encode(), digest_size=12).digest())
    return rest >> 32 << 64 | crc32(ident.encode()) << 32 | rest & 0xFFFF_FFFF


def may_begin(ident: str) -> bool:
    """Return whether a trace with this id of an input may be sampled."""
    return crc32(ident.encode()) <= OPTIONS.root_bound >> 32


def start_root(trace_id: int, name: str, kind: trace.SpanKind) -> trace.Span:
    """Start a trace with this id. The sampler decides whether it is recorded."""
    _next_id.value = trace_id
    try:
        return TRACER.start_span(name, Context(), kind)
    finally:
        _next_id.value = 0
