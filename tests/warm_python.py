"""A Python that has imported torch, fairseq and compare: a program instead of ``sys.executable``.

What starts it, as a command or on a cluster, gets a fork of the process that runs the tests, with
its own folder, environment, input and output. A new interpreter would import for five seconds.
"""

import json
import logging
import multiprocessing
import os
import runpy
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import warm

import fairseq_odeformers
from odeformers.commands import RUN_MODULE
from odeformers.compare import command  # noqa: F401  each comparison would import it

PYTHON = os.path.realpath(sys.executable)  # before a test puts one of these programs in its place

COMMANDS = ("preprocess", "train", "validate", "generate")
PROGRAMS = {"odeformers": "odeformers"} | {f"fairseq-{c}": f"fairseq_cli.{c}" for c in COMMANDS}

# Sends what it was started with, and ends as the fork has ended. If it is killed, so is the fork.
CLIENT = """\
#!{python} -SsE
import array, json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
started = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
streams = socket.SCM_RIGHTS, array.array("i", [0, 1, 2])
server.sendmsg([len(started).to_bytes(8, "big")], [(socket.SOL_SOCKET, *streams)])
server.sendall(started)
status = int(server.recv(16) or 1)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def serve(folder):
    """Write the program into a folder, and start the process that it asks; returns both."""
    warm.prepare()
    address, program = str(folder / "socket"), folder / "python"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    program.write_text(CLIENT.format(python=PYTHON, address=address))
    program.chmod(0o755)
    process = warm.FORK.Process(target=accept, args=(listener, str(program)), daemon=True)
    process.start()
    listener.close()
    return program, process


@contextmanager
def serve_programs(folder):
    """Have the console scripts of fairseq and of this project in a folder, beside that Python."""
    python, server = serve(folder)
    for name, module in PROGRAMS.items():
        (folder / name).write_text(f'#!/bin/bash\nexec {python} -m {module} "$@"\n')
        (folder / name).chmod(0o755)
    try:
        yield python
    finally:
        server.terminate()
        server.join()


def accept(listener, program):
    os.setpgid(0, 0)  # Ctrl-C in a terminal is for the tests, and ends this process with them
    multiprocessing.current_process().daemon = False  # programs may start processes
    sys.executable = program
    signal.signal(signal.SIGTERM, lambda *_: (reap(), os._exit(0)))
    while True:
        connection, _ = listener.accept()
        reap()
        if os.fork() == 0:
            listener.close()
            attend(connection)
        connection.close()


def reap():
    """Collect processes that have ended; their time counts as that of the tests."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def attend(connection):
    """Run what a client asks for in another fork; ends that with the client, and itself after."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    started = b""
    while len(started) < int.from_bytes(size, "big"):
        started += connection.recv(1 << 20)
    child = os.fork()
    if child == 0:
        connection.close()
        os._exit(execute(streams, *json.loads(started)))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:  # the client has gone
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        connection.sendall(str(status).encode())
    except OSError:
        pass
    os._exit(0)


def execute(streams, words, folder, environment):
    """What ``python WORDS`` does in a folder; returns its exit status."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    for number, name in ((1, "stdout"), (2, "stderr")):
        setattr(sys, name, open(number, "w", buffering=1, encoding="utf-8", closefd=False))
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    warnings.simplefilter("ignore")
    hold_averaging(words)
    try:
        run(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    return 0


def hold_averaging(words):
    """Wait before ``odeformers average`` while a file is there, as scripted models do."""
    file = Path(os.environ.get("SCRIPTED", "/nowhere"), "hold-averaging")
    if "average" in words and file.exists():
        file.with_name(f"{file.name}-{os.getpid()}").touch()
        while file.exists():
            time.sleep(0.01)


def run(words):
    options = iter(words)
    for option in options:
        code = next(options) if option == "-c" else ""
        if option == "-m" or code == RUN_MODULE:
            name = next(options)
            sys.argv[:] = [name, *options]
            if name.startswith("fairseq_cli."):
                # A new Python imports fairseq, which sets this up unless the command has done so
                # before, and then the plugin by any link.
                if name != "fairseq_cli.train":
                    logging.basicConfig(level=logging.INFO)
                fairseq_odeformers.__path__.append(os.path.abspath("fairseq_odeformers"))
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        elif option == "-c":
            sys.argv[:] = ["-c", *options]
            exec(code, {"__name__": "__main__"})
        elif option == "-W":
            next(options)
        elif option not in ("-u", "-P"):
            raise ValueError(f"{words}: give -m or -c")
