"""An HTTP client for the records of a pipeline."""

from tests.support.bundles import Json
from tests.support.http import Answer, ask
from tests.support.served import Served


class Records:
    """A client for a pipeline's records."""

    def __init__(self, served: Served, uid: str = "") -> None:
        self.served, self.uid = served, uid or served.deploy()

    def __call__(
        self, method: str, path: str = "", body: bytes | Json = b"", **headers: str
    ) -> Answer:
        return ask(
            self.served.url, method, f"/v1/pipelines/{self.uid}/records{path}", body, headers
        )

    def create(self, content: str, **headers: str) -> Json:
        answer = self("POST", "", {"content": content}, **headers)
        assert answer.status == 201, answer
        return answer.json
