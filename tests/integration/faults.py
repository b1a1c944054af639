"""Making the n-th call of a kind fail inside a running agent, by a library that is preloaded (tests/faults/faults.c).

    faults = Faults(edge)            before the process is started
    faults.arm(SYNC, errno.EIO, 3)   the third fsync from now on below the world's folder fails, once
    faults.failed                    how often it has
    faults.seen                      how many such calls there were
    faults.who                       from where the one that failed came
    faults.disarm()
"""

import mmap
import os
import re
import struct
import subprocess

from agents import build_dir

# As in faults.c.
OPEN, READ, WRITE, SYNC, RENAME, MKDIR, UNLINK, TRUNCATE, MEMORY = (1 << i for i in range(9))
SIZE = 6 * 4 + 232 + 256
FOREVER = 2**30


def library():
    return build_dir() / "faults" / "ilmare-faults.so"


def sanitizer(program):
    """The sanitizer's library, which has to come first; "" if it is none or is inside the program."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = re.search(r"=> (\S*/lib[at]san\S*)", said)
    return found[1] if found else ""


class Faults:
    def __init__(self, process):
        self.process, path = process, process.world.path / f"{process.name}.faults"
        path.write_bytes(bytes(SIZE))
        with open(path, "r+b") as file:
            self.block = mmap.mmap(file.fileno(), SIZE)
        program = process.command[0]
        process.env = {**(process.env or {}), "LD_PRELOAD": f"{sanitizer(program)} {library()}".strip(), "FAULTS_CONTROL": path,
                       "FAULTS_PROGRAM": os.path.basename(program)}

    def _get(self, index):
        return struct.unpack_from("i", self.block, 4 * index)[0]

    def arm(self, kinds, errnum, n, times=1):
        """The n-th (from 1) and the next ones up to `times` fail."""
        self.disarm()
        prefix = f"{self.process.world.path}/".encode()
        self.block[4:SIZE] = struct.pack("5i232s256s", errnum, n - 1, times, 0, 0, prefix, b"")
        struct.pack_into("i", self.block, 0, kinds)

    def disarm(self):
        struct.pack_into("i", self.block, 0, 0)

    @property
    def seen(self):
        return self._get(4)

    @property
    def failed(self):
        return self._get(5)

    @property
    def who(self):
        return self.block[256:SIZE].split(b"\0")[0].decode()
