# SPDX-License-Identifier: MIT
"""What a host crash leaves of a directory that tests/kit/host_disk.c kept account of.

`lost`: nothing that was not synced is there, neither bytes nor names. `torn`: every name is there,
and of the bytes that were not synced every sector of 512 on its own either is or is not, by a coin
that `seed` decides.
"""

import hashlib
import os

SECTOR = 512


class Disk:
    def __init__(self, t, library):
        self.t, self.library = t, library
        self.root, self.log = t.ledger, t.path("disk/log")
        self.fault_file = t.path("disk/fault")
        os.makedirs(t.path("disk"), exist_ok=True)

    def env(self, boot):
        return {
            **self.t.env,
            "LD_PRELOAD": self.library,
            "HAPAX_DISK": self.root,
            "HAPAX_DISK_LOG": self.log,
            "HAPAX_DISK_FAULT": self.fault_file,
            "HAPAX_TEST_BOOT_ID": boot,
        }

    def breaks(self, words):
        """`eio`, `sync` or `full`, and maybe a part of a path, until `heals`."""
        with open(self.fault_file + ".new", "w", encoding="utf-8") as file:
            file.write(words)
        os.rename(self.fault_file + ".new", self.fault_file)

    def heals(self):
        os.unlink(self.fault_file)

    # The crash ----------------------------------------------------------------------------------

    def crash(self, is_torn, seed):
        """No process that uses the directory may live. Returns how many changes were taken back."""
        with open(self.log, encoding="utf-8") as file:
            lines = [line.split() for line in file.read().split("\n")[:-1]]
        os.rename(self.log, self.log + ".played")
        changes, names = self._unsynced(lines)
        places = {os.stat(path).st_ino: path for path in self._files()}
        for inode, undone in changes.items():
            if inode in places:
                self._take_back(places[inode], inode, undone, is_torn, seed)
        if not is_torn:
            for name in reversed(names):
                self._rename_back(name)
        for path in self._files():
            if path.endswith("-shm"):
                os.unlink(path)
        return sum(len(undone) for undone in changes.values()) + (0 if is_torn else len(names))

    def _files(self):
        return [
            os.path.join(directory, name)
            for directory, _, files in os.walk(self.root)
            for name in files
        ]

    @staticmethod
    def _unsynced(lines):
        changes, names = {}, []
        for kind, *rest in lines:
            if kind == "W":
                inode, offset, size, *old = rest
                changes.setdefault(int(inode), []).append(
                    (int(offset), int(size), bytes.fromhex(old[0]) if old else b"")
                )
            elif kind == "S":
                changes.pop(int(rest[0]), None)
            elif kind == "D":
                names = [name for name in names if os.path.dirname(name[1]) != rest[0]]
            else:
                names.append((kind, *rest))
        return changes, names

    @staticmethod
    def _take_back(path, inode, undone, is_torn, seed):
        with open(path, "rb") as file:
            new = file.read()
        old = bytearray(new)
        for offset, size, before in reversed(undone):
            del old[size:]
            old.extend(bytes(size - len(old)))
            old[offset : offset + len(before)] = before
        old = bytes(old)
        if is_torn:
            old = torn(old, new, f"{seed}:{os.path.basename(path)}")
        with open(path, "wb") as file:
            file.write(old)

    def _rename_back(self, name):
        kind, *paths = name
        if kind == "C" and os.path.exists(paths[0]):
            os.unlink(paths[0])
        elif kind == "U" and not os.path.exists(paths[0]):
            os.link(paths[1], paths[0])
        elif kind == "R" and os.path.exists(paths[1]):
            os.rename(paths[1], paths[0])


def torn(old, new, seed):
    """Each sector that differs, and the size, as before or as after."""

    def coin(what):
        return hashlib.sha256(f"{seed}:{what}".encode()).digest()[0] & 1

    size = len(new) if coin("size") else len(old)
    out = bytearray()
    for at in range(0, size, SECTOR):
        side = new if coin(at) else old
        part = side[at : at + SECTOR]
        out += part + bytes(min(SECTOR, size - at) - len(part)) if len(part) < size - at else part
    return bytes(out[:size])
