"""Processes that look at photos, and that are ended where one takes too long.

The service forks a nursery once, when the model is loaded and before it has threads or a gallery. The nursery forks
workers when it is asked: each shares the memory of the model, starts within milliseconds, and has a socket to the
service. Before a worker looks at photos it sets an alarm of processor time, which the kernel keeps: no decoder and no
photo can outlast it. The nursery and its workers are one group of processes, and the nursery ends the group when the
other end of its socket is closed, as it is when the service ends in whatever way.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from hypersphere.recognition import Face, Recognizer
from hypersphere.service.photo_faces import PhotoFace, photo_faces
from hypersphere.service.problems import Problem, Refusal, refusal_of, refused
from hypersphere.service.request_log import log_error

_EVERY_FILE = 65_536
_HEADERS = 2**20


class Nursery:
    """Forks workers.

    Args:
        recognizer: that they look with; its gallery must not be open.
        seconds: of a processor that a worker may take for one request.
    """

    def __init__(self, recognizer: Recognizer, seconds: float) -> None:
        self._control, control = socket.socketpair()
        self.pid = os.fork()
        if self.pid:
            control.close()
            return
        try:
            with tempfile.TemporaryFile() as turn:
                _close_files_but(control.fileno(), turn.fileno())
                _nurse(control, recognizer, seconds, turn.fileno())
        finally:
            os._exit(1)

    def worker(self) -> Worker:
        """A new worker; OSError where the nursery is gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"w"], [theirs.fileno()])
        return Worker(Connection(ours.detach()))

    def alive(self) -> bool:
        """Whether it can fork workers."""
        with suppress(ChildProcessError):
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        return False

    def close(self) -> None:
        """End the nursery and all workers, and wait for the nursery."""
        self._control.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class Worker:
    """The service's end of a process that looks at photos; used by one thread at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def look(self, photos: Sequence[bytes], patience: float) -> list[PhotoFace]:
        """The face of each photo.

        Args:
            photos: contents of image files.
            patience: seconds by the clock after which the worker is given up.

        Raises:
            Refusal: what is wrong with a photo.
            EOFError, OSError: the worker was ended; it is of no use any more.
        """
        self._connection.send_bytes(array.array("Q", map(len, photos)).tobytes())
        for photo in photos:
            self._connection.send_bytes(photo)
        if not self._connection.poll(patience):
            raise EOFError
        told = json.loads(self._connection.recv_bytes(_HEADERS))
        if "problem" in told:
            raise Refusal(told["status"], Problem(**told["problem"]))
        return [self._face(each) for each in told["faces"]]

    def close(self) -> None:
        """Let go of the worker, which ends when it next reads."""
        self._connection.close()

    def _face(self, told: dict[str, Any]) -> PhotoFace:
        crop, unit = (
            np.frombuffer(self._connection.recv_bytes(), kind).reshape(told[name])
            for name, kind in (("crop", np.uint8), ("unit", np.float32))
        )
        face = told["face"]
        if face is not None:
            face = Face(tuple(face["box"]), face["score"], np.asarray(face["landmarks"], np.float32))
        return PhotoFace(told["width"], told["height"], face, crop, unit)


def _nurse(control: socket.socket, recognizer: Recognizer, seconds: float, turn: int) -> None:
    """Fork workers until the service is gone; then end all of them, and this process."""
    os.setpgid(0, 0)  # Ctrl-C in a terminal is for the service, which ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers
    while True:
        word, files, _, _ = socket.recv_fds(control, 1, 1)
        if not word:
            os.killpg(0, signal.SIGKILL)
        if os.fork() == 0:
            try:
                control.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _work(Connection(files[0]), recognizer, seconds, turn)
            finally:
                os._exit(0)
        os.close(files[0])


def _work(connection: Connection, recognizer: Recognizer, seconds: float, turn: int) -> None:
    """Look at photos until the service closes the socket."""
    while True:
        try:
            sizes = array.array("Q", connection.recv_bytes())
            photos = [connection.recv_bytes(size) for size in sizes]
        except (EOFError, OSError):
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF, which nobody catches, ends the process
        faces: list[PhotoFace] = []
        try:
            faces = photo_faces(recognizer, photos, _turn(turn))
            told: dict[str, Any] = {"faces": [_told(face) for face in faces]}
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                log_error(error)
                refusal = refused(500, "failure", "something went wrong; the log of the service says where")
            told = {"status": refusal.status, "problem": asdict(refusal.problem)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        del photos
        try:
            connection.send_bytes(json.dumps(told).encode())
            for face in faces:
                connection.send_bytes(face.crop.tobytes())
                connection.send_bytes(face.unit.astype(np.float32).tobytes())
        except OSError:
            return
        del faces
        _give_memory_back()


def _give_memory_back() -> None:
    """Let glibc return what it keeps for later: the next photos may be looked at by another worker."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _told(found: PhotoFace) -> dict[str, Any]:
    """What goes before the crop and the embedding of a face; no pickle, as this process has read hostile files."""
    face = found.face
    shown = face and {"box": face.box, "score": face.score, "landmarks": np.asarray(face.landmarks).tolist()}
    return {
        "width": found.width,
        "height": found.height,
        "face": shown,
        "crop": found.crop.shape,
        "unit": found.unit.shape,
    }


@contextmanager
def _turn(file: int) -> Iterator[None]:
    """Wait until no other worker decodes a large photo. A lock of the kernel's, which goes with the process."""
    fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)


def _close_files_but(*kept: int) -> None:
    """Close the port and whatever else the service had open."""
    first = 3
    for file in (*sorted(kept), _EVERY_FILE):
        os.closerange(first, file)
        first = file + 1
