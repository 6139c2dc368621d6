"""Makes every attempt of the programs above, each in a child of its own, and writes down what came of it."""

import errno
import json
import os
import signal
import socket
import time

FORK_TRIES = 300


def outcome(attempt):
    """Return what an attempt came to: the name of an errno or exception, or the value it got."""
    try:
        return attempt()
    except socket.gaierror as error:
        names = {getattr(socket, name): name for name in dir(socket) if name.startswith("EAI_")}
        return names.get(error.errno, str(error.errno))
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except BaseException as error:  # noqa: BLE001 - whatever an attempt ends with is its outcome
        return type(error).__name__


def fork():
    """Fork; the limit of processes is one for all runs of this user, and attempts of another run may be at it."""
    for _ in range(FORK_TRIES):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.2)
    return os.fork()


def apart(attempt):
    """Make an attempt in a child, which may die of it."""
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, json.dumps(outcome(attempt), default=repr).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        reported = pipe.read()
    _, status = os.waitpid(child, 0)
    if reported:
        return json.loads(reported)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "nothing"


def make(attempts, here=()):
    """Make all attempts and leave their outcomes in a file; those of `here` without a child."""
    found = {
        name: outcome(attempt) if name in here else apart(attempt) for name, (attempt, _) in attempts.items()
    }
    os.makedirs("outputs", exist_ok=True)
    with open("outputs/outcomes.json", "w") as file:
        json.dump(found, file)
