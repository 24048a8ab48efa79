"""Python and fairseq's commands for a shell script, in forks of the process that runs the tests.

That has imported torch and fairseq already, which takes a process of its own five seconds.
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

COMMANDS = "train generate preprocess validate eval-lm".split()
FORK = multiprocessing.get_context("fork")
CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[2:]]).encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(server.recv(1)[0])
"""


def become(files, cwd, environment, argv):
    """Turn a fork into what a command line starts.

    Args:
        files: descriptors of standard input, output and error.
        argv: a command of fairseq, or ``python`` with a script, ``-c`` and code, or ``-m`` and the
            name of a module.
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
    if program.startswith("fairseq-"):
        module = program.replace("fairseq-", "fairseq_cli.").replace("-", "_")
        program, args = "python", ["-m", module, *args]
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
    """Becomes what a client asks for, with the client's files, and answers with its status."""

    def handle(self):
        _, files, *_ = socket.recv_fds(self.request, 1, 3)
        request = json.loads(self.request.makefile().read())
        process = FORK.Process(target=become, args=(files, *request))
        process.start()
        process.join()
        self.request.sendall(bytes([process.exitcode % 256]))


class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    block_on_close = False


@contextmanager
def commands():
    """The environment in which bash finds these commands before those of its path."""
    with tempfile.TemporaryDirectory() as folder:
        address, functions = Path(folder) / "socket", Path(folder) / "functions"
        client = f'"{sys.executable}" -I -S -c "$CLIENT" "{address}"'
        names = ["python", *(f"fairseq-{name}" for name in COMMANDS)]
        lines = "".join(f'{name}() {{ {client} {name} "$@"; }}\n' for name in names)
        functions.write_text(lines)
        with Server(str(address), Request) as server:
            process = FORK.Process(target=server.serve_forever)
            process.start()
            try:
                yield {"BASH_ENV": str(functions), "CLIENT": CLIENT}
            finally:
                process.terminate()
                process.join()
