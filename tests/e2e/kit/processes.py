# SPDX-License-Identifier: MIT
"""What /proc knows of the processes of one test. A test marks its environment; children inherit
the mark.
"""

import os
import signal
import time

MARK = "HAPAX_E2E_TEST"


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def command_line(pid):
    return [part.decode("utf-8", "replace") for part in _read(pid, "cmdline").split(b"\0")[:-1]]


def _stat(pid):
    return _read(pid, "stat").rpartition(b")")[2].split()


def is_alive(pid):
    fields = _stat(pid)
    if not fields or fields[0] == b"X":
        return False
    if fields[0] != b"Z":
        return True
    # A leader that has ended shows as a zombie while another of its threads lives.
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def state(pid):
    """As /proc has it: R, S, T (stopped), …; nothing when it is gone."""
    fields = _stat(pid)
    return fields[0].decode() if fields else ""


def resume(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def parent(pid):
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def cpu_seconds(pid):
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def executable(pid):
    try:
        return os.path.realpath(f"/proc/{pid}/exe")
    except OSError:
        return ""


def marked(mark):
    """The living processes whose environment carries this test's mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid() and is_alive(int(entry)):
            if wanted in _read(entry, "environ").split(b"\0"):
                found.append(int(entry))
    return sorted(found)


def zombies_of(pids):
    """Children of these processes that ended and were not waited for."""
    found = []
    for entry in os.listdir("/proc"):
        fields = _stat(entry) if entry.isdigit() else []
        if fields and fields[0] == b"Z" and int(fields[1]) in pids:
            found.append(int(entry))
    return found


def _open_files(pid):
    """What its descriptors are of; one that is closed meanwhile is not among them."""
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for fd in fds:
        try:
            yield os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass


def holds_file(pid, prefix):
    return any(path.startswith(prefix) for path in _open_files(pid))


def holds_database(pid, directory):
    """The database or its companions of SQLite; a reaper has a lock file beside them open."""
    names = [os.path.join(directory, "ledger.db" + tail) for tail in ("", "-wal", "-shm")]
    return any(path in names for path in _open_files(pid))


class Family:
    """The processes of one `hapax run`: the front (started by the client), keeper, reaper,
    servers.
    """

    def __init__(self, mark, hapax, ledger, front=None):
        ours = [pid for pid in marked(mark)]
        program = os.path.realpath(hapax)
        own = [pid for pid in ours if executable(pid) == program]
        self.front = front
        # The keeper is the one that has the ledger open: neither front nor reaper may (a closed
        # descriptor of the database drops its locks), so this also finds a mistake there.
        self.keepers = [pid for pid in own if pid != front and holds_database(pid, ledger)]
        self.others = [pid for pid in own if pid != front and pid not in self.keepers]
        self.servers = [pid for pid in ours if pid not in own]

    def __repr__(self):
        return f"front {self.front}, keepers {self.keepers}, others {self.others}, servers {self.servers}"


def kill(pid, expected, sig=signal.SIGKILL):
    """Kills one process after checking that it is the one meant: a word of its command line must
    fit.
    """
    line = command_line(pid)
    assert any(expected in word for word in line), f"pid {pid} is {line}, wanted {expected}"
    os.kill(pid, sig)


def wait_gone(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        assert time.monotonic() < deadline, f"pid {pid} still lives: {command_line(pid)}"
        time.sleep(0.01)
