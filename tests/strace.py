"""The calls that a process makes of the system, as strace records them."""

import ctypes
import os
import re
import shutil
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.limits import fork

_CALLS = "openat,pwrite64,pwritev,write,writev,fsync,fdatasync,ftruncate,link,linkat,unlink,unlinkat,rename"
_TEXT = re.compile(r'[<"]((?:\\x[0-9a-f]{2})*)[>"]')
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")


def record(work: Callable[[], None], log: Path) -> list[str]:
    """The calls that a forked process makes while it works, as strace writes them."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        try:
            ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1))  # let strace watch, where a system forbids it
            os.read(reader, 1)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={_CALLS}", "-o", str(log), "-p", str(child)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        attached = strace.stderr.readline()
        os.write(writer, b"x")
        _, ended = os.waitpid(child, 0)
        strace.communicate()
    os.close(reader)
    os.close(writer)
    assert "attached" in attached, attached
    assert ended == 0, "the work failed; its traceback is above"
    return [line.partition(" ")[2].lstrip() for line in log.read_text().splitlines()]


def texts_of(call: str) -> list[bytes]:
    """Names of files and other texts of a call, in their order."""
    return [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(call)]
