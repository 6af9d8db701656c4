"""What the server bounds of one connection: past a bound it closes it, and a worker comes to the
same place again."""

from cli.doctor.finding import Finding, Patient, ok, untold, warning
from cli.doctor.server import KEEP_IT, config_of
from worker.limits import WorkerLimits


async def check_limits(patient: Patient) -> list[Finding]:
    """Whether a full batch of the longest messages can be read, and the largest cascade be told."""
    settings, cascade = patient.settings, WorkerLimits().cascade_bytes
    least = {
        "client-output-buffer-limit": settings.worker.batch * settings.bus.max_message_bytes,
        "client-query-buffer-limit": 4 * cascade,
        "proto-max-bulk-len": 2 * cascade,
    }  # it is said twice, escaped
    found = []
    for name, enough in least.items():
        told = await config_of(patient.line, name)
        if told is None:
            return [untold("limits", "what one connection may have", "CONFIG GET")]
        allowed = min(_bounds(told), default=enough)
        if allowed < enough:
            found.append(
                warning(
                    "limits",
                    f"{name} allows {allowed >> 20} MiB, and a connection of a worker's may need "
                    f"{enough >> 20}: the server would close it, again and again",
                    _remedy(name, enough),
                )
            )
    return found or [ok("limits", "what one connection may have is enough for a worker")]


def _bounds(told: str) -> list[int]:
    """In bytes: a number, or of each sort of client its name, two bounds and a time. 0 is none;
    only workers' reads matter."""
    words = told.split()
    words = words[words.index("normal") + 1 :][:2] if "normal" in words else words
    return [int(word) for word in words if int(word)]


def _remedy(name: str, enough: int) -> str:
    value = '"normal 0 0 0"' if name == "client-output-buffer-limit" else enough
    return f"CONFIG SET {name} {value}, {KEEP_IT}"
