"""Send the sample event as GitHub does: with the id of a delivery, and signed with the secret."""

import hashlib
import hmac
import os
import urllib.request
from pathlib import Path

SERVER = os.environ.get("SERVER_URL", "http://127.0.0.1:8765")
SECRET = os.environ["GITHUB_WEBHOOK_SECRET"].encode()

body = Path(__file__).with_name("issue.json").read_bytes()
headers = {
    "Content-Type": "application/json",
    "X-GitHub-Event": "issues",
    "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest(),
}
request = urllib.request.Request(f"{SERVER}/webhooks/github/events?wait=5", body, headers)
with urllib.request.urlopen(request, timeout=10) as answer:
    print(answer.read().decode())
