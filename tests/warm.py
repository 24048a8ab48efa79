"""Python and fairseq's commands for a shell script, in forks of the process that runs the tests.

A fork has imported torch and fairseq already, which takes a new process five seconds.
"""

import json
import logging
import multiprocessing
import os
import runpy
import socket
import socketserver
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

NAMES = [
    "python",
    *(f"fairseq-{name}" for name in "train generate preprocess validate eval-lm".split()),
]
FORK = multiprocessing.get_context("fork")
PROGRAM = """#!/bin/sh
exec "{python}" -I -S "{folder}/client.py" "$0" "$@"
"""
CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.path.join(os.path.dirname(__file__), "socket"))
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode() + b"\\n")
    sys.exit(server.recv(1)[0])
"""
# A script that ends with `exec python` runs the fork as well.
EXEC = """
exec() {
    case $1 in */python) shift; python "$@" ;; *) "$@" ;; esac
    exit
}
"""


def become(files, cwd, environment, argv):
    """Turn a fork into what a command line starts.

    Args:
        files: descriptors of standard input, output and error.
        argv: a command of fairseq, or ``python`` with a script, ``-c`` and code, or ``-m`` and the
            name of a module. The folder of the program is where it finds others.
    """
    for number, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), files)):
        os.dup2(file, number)
        stream = open(number, "w" if number else "r", buffering=1, encoding="utf-8", closefd=False)
        setattr(sys, name, stream)
    logging.root.handlers.clear()
    logging.disable(logging.NOTSET)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    program, *args = argv
    folder, name = os.path.split(program)
    sys.executable = os.path.join(folder, "python")
    if name.startswith("fairseq-"):
        args = ["-m", name.replace("fairseq-", "fairseq_cli.").replace("-", "_"), *args]
    kind = args.pop(0) if args[0] in ("-c", "-m") else None
    sys.argv[:] = args
    if kind == "-c":
        sys.argv[0] = kind
        exec(args[0], {"__name__": "__main__"})
    elif kind == "-m":
        runpy.run_module(args[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(args[0]))
        runpy.run_path(args[0], run_name="__main__")


class Request(socketserver.BaseRequestHandler):
    """Starts a fork that becomes what a client asks for, and answers with its exit status."""

    def handle(self):
        _, files, *_ = socket.recv_fds(self.request, 1, 3)
        with self.request.makefile("rb", buffering=0) as lines:
            request = json.loads(lines.readline())
        process = FORK.Process(target=become, args=(files, *request))
        process.start()
        process.join()
        self.request.sendall(bytes([process.exitcode % 256]))


class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    block_on_close = False


@contextmanager
def commands():
    """A folder of these commands, and the environment in which bash finds them before others."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "client.py").write_text(CLIENT)
        functions = [EXEC]
        for name in NAMES:
            program = folder / name
            program.write_text(PROGRAM.format(python=sys.executable, folder=folder))
            program.chmod(0o755)
            functions.append(f'{name}() {{ "{program}" "$@"; }}\n')
        (folder / "functions").write_text("".join(functions))
        with Server(str(folder / "socket"), Request) as server:
            process = FORK.Process(target=server.serve_forever)
            process.start()
            try:
                yield folder, {"BASH_ENV": str(folder / "functions")}
            finally:
                process.terminate()
                process.join()
