"""OpenTelemetry: the tracer of the process, trace contexts, and the attributes of spans.

Only a process that exports traces loads this package. It needs the extra `otel`.
"""
