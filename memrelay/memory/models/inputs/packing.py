"""How the inputs of a batch become the bytes of one row, and back."""

import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

# Text that is frequent in inputs, the most frequent last. All rows depend on it: a change needs a
# migration.
FREQUENT = (
    b" these those such only other than then them some could should must after before because "
    b"between during where which while about their there through under again first last next "
    b"every each more most many much good great little long right still think know take make "
    b"made need like want work working time times year years day days week weeks month morning "
    b"afternoon evening today tomorrow yesterday Monday Tuesday Wednesday Thursday Friday "
    b"people person customer order orders number address email phone account project meeting "
    b"report team office house home school family friend company service system problem "
    b"question answer please thanks thank prefers likes loves lives moved works wants needs "
    b"bought asked said says told called sent gave found went came got has had have been being "
    b"were was are not but can will would when what who how all any one two three new old at "
    b"by from they his her she he him we us our you your my me I'm it's don't it its or an as "
    b"be on with for that this is and to in of the . The , and "
    b'{"content":"","kind":"","tags":[""],"data":{},"guid":"01a'
    b"opdatastoreactorhttpidhoporiginpublishedagentmemories.remember records.create"
    b'{"from":"User","id":"chat","args":[{"username":"User","text":"/remember "/search "/append '
    b'{"from":"User","id":"me","args":[{"username":"User","text":"/write ",'
    b'"timestamp":17"timestamp":18,"type":"text/plain"}]}swarm\xa4chat\xc4\x04data\xc4'
)
# Digits of a version's hash that each of its inputs has. Repeated, they cost a byte.
BUNDLE_DIGITS = 16


class KeptResult(Struct, frozen=True, array_like=True):
    """The result of a deferred call that an input has led to, as JSON in `data`.

    `digest` is that of its request, which is not kept. `agent` is the alias, and `call_id` the id
    of the deferred call.
    """

    digest: bytes
    agent: str
    call_id: str
    data: bytes


class KeptInput(Struct, frozen=True, array_like=True):
    """An input as it arrived, or the `result` of a deferred call that it has led to.

    `ms` and `number` are the two parts of its id. `fields` alternates the names and values of its
    entry; a result has none. `uid` is its pipeline, "" for the pipeline that has the store.
    `bundle` are the first digits of the hash of the version under which it ran, "" in older rows.
    """

    ms: int
    number: int
    uid: str
    fields: list[bytes]
    bundle: str = ""
    result: KeptResult | None = None

    @property
    def id(self) -> str:
        return f"{self.ms}-{self.number}"

    def field(self, name: bytes) -> bytes:
        """Return the value of a field, b"" if it has none."""
        names = self.fields[::2]
        return self.fields[2 * names.index(name) + 1] if name in names else b""

    def text(self, name: bytes) -> str:
        """Return the value of a field as text."""
        return self.field(name).decode(errors="replace")


# The same fields as a tuple, which is made faster.
InputFields = (
    tuple[int, int, str, list[bytes], str] | tuple[int, int, str, list[bytes], str, KeptResult]
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[KeptInput]).decode


def pack(inputs: Sequence[KeptInput | InputFields]) -> bytes:
    """Compress inputs in their order. It costs about 1 µs for each."""
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY, FREQUENT)
    return deflate.compress(_encode(inputs)) + deflate.flush()


def unpack(data: bytes) -> list[KeptInput]:
    """Return the inputs of a row."""
    return _decode(zlib.decompressobj(-15, FREQUENT).decompress(data))
