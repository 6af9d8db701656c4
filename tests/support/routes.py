"""The application without what it serves: enough to see its routes and its document."""

from pathlib import Path

from aiohttp import web

from bus.address import Address
from bus.follow import Follower
from bus.line import Line
from bus.request import Requester
from memory.catalog import Catalog
from web.app import make_app
from web.authoriser import Authoriser
from web.deployments import Deployments
from web.directory import Directory
from web.parts import Parts, WebOptions
from web.traffic import Traffic


def app_for(root: Path) -> web.Application:
    """Made of real parts of which none is opened."""
    address, catalog = Address(path=str(root / "nobody.sock")), Catalog(root)
    line = Line(address)
    return make_app(
        Parts(
            WebOptions(rate=0),
            catalog,
            Directory(catalog),
            Deployments(catalog, line),
            Requester(address),
            line,
            Follower(address),
            Traffic(),
            lambda reference: "",
            Authoriser(catalog, on_loopback=True),
        )
    )
