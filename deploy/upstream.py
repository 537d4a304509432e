#!/usr/bin/env python3
"""Processes that a server depends on, each at a port of its own on the loopback address, to be killed and brought back.

    upstream.py FOLDER      runs a Qdrant with its files in FOLDER until it is ended; prints `ready on URL`"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

# As `spechop data-dir` says.
SHARE = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share")
DATA = pathlib.Path(os.environ.get("SPECHOP_DATA_DIR") or SHARE / "spechop")
START_S = 120
# What is asked is on this machine, whatever the environment says of proxies. Whoever imports this asks so, too.
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))


# Bound, and not listening: nobody who asks for any free port is given one of these.
_ports = []


def free_port():
    """A port for a server that shares addresses (SO_REUSEADDR), as nearly all do: it is kept for it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    _ports.append(sock)
    return sock.getsockname()[1]


def listens(port):
    with socket.socket() as sock:
        sock.settimeout(0.2)
        return sock.connect_ex(("127.0.0.1", port)) == 0


def until(holds, seconds, what):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what} after {seconds} s")
        time.sleep(0.02)


class Upstream:
    """A process at a port of its own, which comes back there."""

    def __init__(self, name, port, command, log, env=None, cwd=None):
        self.name, self.port, self.command, self.log, self.env, self.cwd = name, port, command, log, env, cwd
        self.process = None

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env or os.environ, cwd=self.cwd
            )

    def ready(self, seconds=START_S):
        def holds():
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} has ended: {self.log.read_text(errors='replace')[-2000:]}")
            return listens(self.port)

        until(holds, seconds, f"{self.name} is not there")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        if self.process and self.process.poll() is None:
            self.resume()
            self.kill()


class Qdrant(Upstream):
    """One node, or one of a cluster: `clustered`, and the others join the node `first`. Its port is that of gRPC."""

    def __init__(self, folder, name="qdrant", clustered=False, first=None):
        self.http, grpc, self.peer = free_port(), free_port(), free_port()
        folder = folder / name
        folder.mkdir()
        env = os.environ | {
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(self.http),
            "QDRANT__SERVICE__GRPC_PORT": str(grpc),
            "QDRANT__STORAGE__STORAGE_PATH": str(folder / "storage"),
            "QDRANT__STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
            "QDRANT__TELEMETRY_DISABLED": "true",
        }
        command = [str(self.installed() or sys.exit("Qdrant is not installed: deploy/test-tools.sh fetches it"))]
        if clustered:
            env |= {"QDRANT__CLUSTER__ENABLED": "true", "QDRANT__CLUSTER__P2P__PORT": str(self.peer)}
            command += ["--uri", f"http://127.0.0.1:{self.peer}"]
            command += ["--bootstrap", f"http://127.0.0.1:{first.peer}"] if first else []
        # It leaves a file where it is started.
        super().__init__(name, grpc, command, folder / "log", env, cwd=folder)

    @staticmethod
    def installed():
        """The binary; None if there is none."""
        return next((path for path in (DATA / "bin/qdrant", shutil.which("qdrant")) if path and os.path.exists(path)), None)

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def answers(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/collections", timeout=120) as response:
                return json.load(response)["status"] == "ok"
        except (OSError, ValueError):
            return False

    def up(self):
        self.start()
        self.ready()
        until(self.answers, START_S, f"{self.name} does not answer")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    qdrant = Qdrant(pathlib.Path(sys.argv[1]).resolve())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        qdrant.up()
        print(f"ready on {qdrant.url()}", flush=True)
        qdrant.process.wait()
    finally:
        qdrant.end()


if __name__ == "__main__":
    main()
