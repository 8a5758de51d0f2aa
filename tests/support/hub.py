"""A stand-in for the Hugging Face Hub on this machine: as much of its API as a model needs."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Repositories in memory, and every request that was made."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.requests: list[str] = []
        self.status = 0
        """If set, every request fails with it."""

    @property
    def address(self) -> str:
        """What ``HF_ENDPOINT`` has to be."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def hub() -> Iterator[Hub]:
    """A running stand-in."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self._path()
        parts = path.split("/")
        if self.server.status:
            self._answer(self.server.status, {"error": "no"})
        elif parts[:3] == ["", "api", "models"]:
            self._about("/".join(parts[3:5]), parts[5:])
        elif len(parts) > 5 and parts[3] == "resolve":
            self._file("/".join(parts[1:3]), "/".join(parts[5:]))
        else:
            self._answer(404, {"error": path})

    def do_POST(self) -> None:
        path = self._path()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.status:
            self._answer(self.server.status, {"error": "no"})
        elif path == "/api/repos/create":
            given = json.loads(body)
            name = f"{given['organization']}/{given['name']}" if given.get("organization") else given["name"]
            self.server.repositories.setdefault(name, {})
            self._answer(200, {"url": f"{self.server.address}/{name}", "name": name})
        elif "/preupload/" in path:
            files = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]]
            self._answer(200, {"files": files, "shouldUseRegularUpload": True})
        elif "/commit/" in path:
            self._commit("/".join(path.split("/")[3:5]), body)
        else:  # /api/validate-yaml
            self._answer(200, {"errors": [], "warnings": []})

    def _path(self) -> str:
        self.server.requests.append(f"{self.command} {self.path}")
        return self.path.partition("?")[0]

    def _commit(self, name: str, body: bytes) -> None:
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                value = line["value"]
                self.server.repositories[name][value["path"]] = base64.b64decode(value["content"])
        url = f"{self.server.address}/{name}/commit/{COMMIT}"
        self._answer(200, {"success": True, "commitOid": COMMIT, "commitUrl": url, "hookOutput": ""})

    def _about(self, name: str, rest: list[str]) -> None:
        files = self.server.repositories.get(name)
        if files is None:
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif rest[:1] == ["revision"] and rest[1] not in ("main", COMMIT):
            self._answer(404, {"error": "Invalid rev"}, {"X-Error-Code": "RevisionNotFound"})
        elif rest[:1] == ["tree"]:
            listing = [
                {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for path, data in files.items()
            ]
            self._answer(200, listing)
        else:
            siblings = [{"rfilename": path, "size": len(data)} for path, data in files.items()]
            self._answer(200, {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "private": False})

    def _file(self, name: str, path: str) -> None:
        data = self.server.repositories.get(name, {}).get(path)
        if data is None:
            self._answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha1(data).hexdigest()
        self._send(
            200, data, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Content-Type": "application/octet-stream"}
        )

    def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
