"""What an ELF file asks of the dynamic loader: read from the file itself, so that it works for every architecture on every machine."""

import struct

MACHINES = {62: "amd64", 183: "arm64"}
PT_DYNAMIC, PT_INTERP, PT_LOAD = 2, 3, 1
DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 14, 15, 29


class Elf:
    """`arch` (amd64, arm64 or a number), `needed` (names), `soname`, `interpreter`, `search` (paths of its own); None where there is none."""

    def __init__(self, arch):
        self.arch = arch
        self.needed = []
        self.soname = self.interpreter = self.search = None


def text_at(data, offset):
    return data[offset:data.index(b"\0", offset)].decode()


def read(path):
    """The Elf of a 64-bit little-endian file, or None if it is anything else."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    machine = struct.unpack_from("<H", data, 18)[0]
    elf = Elf(MACHINES.get(machine, machine))
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    loads, dynamic = [], None
    for i in range(count):
        kind, _, at, address, _, length = struct.unpack_from("<IIQQQQ", data, offset + i * size)
        if kind == PT_LOAD:
            loads.append((address, at, length))
        elif kind == PT_INTERP:
            elf.interpreter = text_at(data, at)
        elif kind == PT_DYNAMIC:
            dynamic = (at, length)
    if dynamic is None:
        return elf
    entries = list(struct.iter_unpack("<qQ", data[dynamic[0]:dynamic[0] + dynamic[1] // 16 * 16]))
    address = next(value for tag, value in entries if tag == DT_STRTAB)
    strings = next(at + address - begin for begin, at, length in loads if begin <= address < begin + length)
    for tag, value in entries:
        if tag == DT_NEEDED:
            elf.needed.append(text_at(data, strings + value))
        elif tag == DT_SONAME:
            elf.soname = text_at(data, strings + value)
        elif tag in (DT_RPATH, DT_RUNPATH):
            elf.search = text_at(data, strings + value)
    return elf
