"""Cost of the block extract without the model's time: `python -m benchmarks.extraction`.

A stub of a model answers at once with one fact for every fifth turn. Requests go over HTTP on the
loopback, and stores are files, as with a worker.
"""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from memrelay.testing import test_pipeline

TURNS, BATCHES = 1000, (5, 20, 50)
TEXT = "Turn {}: we moved the appointment with the plumber to Friday at nine, because of the rain."
CHARACTERS_PER_TOKEN = 4
ANSWERED = "Fact {}: on day {} the plumber comes at {}."


class Stub(BaseHTTPRequestHandler):
    """Answers as `/chat/completions` does. `sent` counts characters of all requests."""

    protocol_version, sent, requests = "HTTP/1.1", 0, 0

    def do_POST(self) -> None:
        """Answer with facts."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [message["content"] for message in body["messages"]]
        Stub.sent, Stub.requests = Stub.sent + sum(map(len, texts)), Stub.requests + 1
        numbers = range(1, texts[1].count("\n"), 5)
        at = Stub.requests
        facts = [{"text": ANSWERED.format(at, n, at + n), "turns": [n]} for n in numbers]
        content = json.dumps({"facts": facts})
        answer = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def measure(url: str, turns: int) -> None:
    """Extract from TURNS turns in batches of `turns`, and print the cost."""
    args = {"url": url, "model": "stub", "turns": turns}
    bundle = {
        "pipeline_name": "extraction",
        "agents": [
            {
                "agent_class": "wf_agent",
                "agent_alias": "facts",
                "wf_agent_name": "facts",
                "agent_rec_swarm": "",
                "agent_send_swarm": "work",
                "wf_interval_secs": 60,
                "wf_diagram_webhook": "extract",
                "wf_webhook_args": args,
            }
        ],
    }
    Stub.sent = Stub.requests = 0
    with test_pipeline(bundle) as p:
        p.execute("facts")
        store = p.store("memories")
        store.turns.add([{"content": TEXT.format(n)} for n in range(TURNS)], thread="t", user="u")
        began = time.perf_counter()
        while store.extraction.status().items == () or _count_waiting(p):
            p.advance("61s")
        took_s = time.perf_counter() - began
        (status,) = store.extraction.status().items
        tokens = Stub.sent // CHARACTERS_PER_TOKEN
        print(
            f"| {turns} | {Stub.requests} | {tokens / TURNS:.0f} | "
            f"{1000 * took_s / Stub.requests:.1f} | {status.created + status.updated} |"
        )


def _count_waiting(p: object) -> int:
    (status,) = p.store("memories").extraction.status().items  # type: ignore[attr-defined]
    return int(status.turns_waiting)


def main() -> None:
    """Print a row for each size of a batch."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    Thread(target=server.serve_forever, daemon=True).start()
    print("| turns in a batch | calls | tokens sent for a turn | ms for a call | facts |")
    print("|---|---|---|---|---|")
    for turns in BATCHES:
        measure(f"http://127.0.0.1:{server.server_port}/v1", turns)
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
