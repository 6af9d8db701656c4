"""Check the signature of GitHub's webhooks, and pass the events on to Memrelay.

Memrelay checks Standard Webhooks, GitHub signs differently (X-Hub-Signature-256). The id of a
delivery becomes the id of the message, so a repeated delivery is stored once.
"""

import hashlib
import hmac
import os
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVER = os.environ.get("SERVER_URL", "http://127.0.0.1:8765")
SECRET = os.environ["GITHUB_WEBHOOK_SECRET"].encode()
PORT = int(os.environ.get("PORT", "8080"))
WEBHOOK = f"{SERVER}/webhooks/github/events"
MAX_BYTES = 1 << 20


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        if size > MAX_BYTES:
            self.answer(413)
            return
        body = self.rfile.read(size)
        expected = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(self.headers.get("X-Hub-Signature-256", ""), expected):
            self.answer(401)
            return
        delivery = self.headers.get("X-GitHub-Delivery", "")
        request = urllib.request.Request(WEBHOOK, body, {"webhook-id": delivery})
        try:
            urllib.request.urlopen(request, timeout=8).close()
        except urllib.error.URLError:
            self.answer(502)  # GitHub shows the failure and can deliver again
        else:
            self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    receiver = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
    print(f"receives webhooks on http://127.0.0.1:{receiver.server_port}", flush=True)
    receiver.serve_forever()
