"""A server on 127.0.0.1 whose files misbehave as told."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    body: bytes
    statuses: list = field(default_factory=list)  # answered in turn before the file itself
    breaks: list = field(default_factory=list)  # bytes after which the connection breaks, in turn
    headers: dict = field(default_factory=dict)
    ranges: bool = True
    etag: str | None = '"one"'
    length: bool = True
    hang: bool = False
    status: int = 200


class Web:
    def __init__(self):
        self.files = {}
        self.requests = []
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_HEAD(self):
                self.answer(send_body=False)

            def do_GET(self):
                self.answer(send_body=True)

            def answer(self, *, send_body):
                path = self.path.partition("?")[0]
                outer.requests.append((path, self.headers.get("Range"), self.headers.get("If-Range")))
                served = outer.files.get(path)
                self.close_connection = True
                if served is None:
                    self.send_error(404)
                    return
                if served.hang:
                    outer.released.wait(20)
                    return
                if served.statuses:
                    self.send_error(served.statuses.pop(0))
                    return
                outer.send(self, served, send_body=send_body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def send(self, handler, served, *, send_body):
        start = 0
        wanted = handler.headers.get("Range")
        same = handler.headers.get("If-Range") in (None, served.etag)
        if wanted and served.ranges and same:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(served.body):
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{len(served.body)}")
                handler.send_header("Content-Length", "0")
                handler.send_header("Connection", "close")
                handler.end_headers()
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(served.body) - 1}/{len(served.body)}")
        else:
            handler.send_response(served.status)
        body = served.body[start:]
        if served.length:
            handler.send_header("Content-Length", str(len(body)))
        if served.etag:
            handler.send_header("ETag", served.etag)
        handler.send_header("Connection", "close")  # else a client may send its next request into a closing one
        for name, value in served.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        if send_body:
            handler.wfile.write(body[: served.breaks.pop(0)] if served.breaks else body)

    def serve(self, path, body, **how):
        self.files[path] = Served(body, **how)
        return self.url + path

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
