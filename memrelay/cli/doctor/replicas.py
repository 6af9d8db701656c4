"""Checks of the replicas of the bus server: what a failover can lose."""

from memrelay.bus.client.primary import count_answering
from memrelay.bus.errors import BadAddress, BusRefused
from memrelay.bus.info import parse_info
from memrelay.bus.lease.workers import fix_cells
from memrelay.cli.composition import bus_address
from memrelay.cli.doctor import DoctorContext, Finding, fault, ok, unknown, warning

LOSES = "a failover loses the last messages that no replica has yet, although they are acknowledged"
REMEDY = "set bus.min_replicas to 1: then a message is acknowledged once a replica has it"


async def check_replicas(context: DoctorContext) -> list[Finding]:
    """Compare the connected replicas with `bus.min_replicas`. A server alone has no finding."""
    wanted = bus_address(context.settings).min_replicas
    try:
        info = parse_info(await context.connection.call("INFO", "replication"))
    except BusRefused:
        return [unknown("replicas", "its replicas", "INFO")] if wanted else []
    online = sum("state=online" in value for name, value in info.items() if name[:5] == "slave")
    have = f"{online} {'replica is' if online == 1 else 'replicas are'} connected"
    if online < wanted:
        text = (
            f"{have}, and bus.min_replicas is {wanted}: HTTP and the command line refuse messages"
        )
        return [fault("replicas", text, "start more replicas, or lower bus.min_replicas")]
    if wanted:
        return [ok("replicas", f"{have}; {wanted} must have a message before it is acknowledged")]
    return [warning("replicas", f"{have}: {LOSES}", REMEDY)] if online else []


async def check_watchers(context: DoctorContext) -> list[Finding]:
    """Check that all Sentinels, or nodes of a cluster, of `bus.url` know the primary."""
    address = bus_address(context.settings)
    if not address.watchers:
        return []
    try:
        await fix_cells(context.connection)
    except BadAddress as error:
        return [fault("cells", str(error), "use the same number on all hosts")]
    total, answering = len(address.watchers), await count_answering(address)
    kind = "nodes" if address.nodes else "Sentinels"
    of = "the keys" if address.nodes else repr(address.service)
    text = f"{answering} of {total} {kind} know a primary of {of}"
    if answering < total:
        remedy = "start the others, or correct bus.url: without a majority there is no failover"
        return [warning(kind.lower(), text, remedy)]
    return [ok(kind.lower(), text)]
