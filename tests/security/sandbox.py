"""What a unit takes away from a service, as far as it can be taken away without systemd: sandbox.py UNIT WRITABLE… -- COMMAND…

Another user, no capabilities, no new privileges, the umask; a filter of system calls with the unit's sets, families of sockets and its ban on
memory that is written and executed; all file systems read-only but for some folders. As root only. A call that the unit does not allow
ends the process (there it would get an error), so that none goes unseen.
"""

import ctypes
import os
import pathlib
import re
import struct
import subprocess
import sys

UID = GID = 65534
LOAD, AND, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x54, 0x15, 0x45, 0x06  # BPF: load a word; mask it; jump if equal, if bits are set; return
ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCH_X86_64 = 0xC000003E


def settings(unit):
    """{key: [values in order]} of the [Service] section."""
    found = {}
    section = re.search(r"(?ms)^\[Service\]$(.*?)(?=^\[|\Z)", pathlib.Path(unit).read_text())[1]
    for key, value in re.findall(r"(?m)^(\w+)=(.*)$", section):
        found.setdefault(key, []).append(value)
    return found


def expand(name):
    """Names of the calls in a set such as @system-service."""
    if not name.startswith("@"):
        return {name}
    text = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
    words = [line.strip() for line in text.splitlines() if line.startswith("    ") and not line.strip().startswith("#")]
    return set().union(*map(expand, words))


def allowed(unit):
    calls = set()
    for value in settings(unit)["SystemCallFilter"]:
        sets = set().union(*map(expand, value.lstrip("~").split()))
        calls = calls - sets if value.startswith("~") else calls | sets
    return calls


def numbers():
    text = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").read_text()
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text)}


def instruction(code, k, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, k)


def check_argument(number, index, test, value):
    """If the call is this one: end the process if the test of an argument says so."""
    return [instruction(LOAD, 0), instruction(JUMP_EQUAL, number, 0, 3), instruction(LOAD, 16 + 8 * index),
            instruction(test, value, 0, 1), instruction(RETURN, KILL)]


def program(unit):
    known, unit_settings = numbers(), settings(unit)
    code = [instruction(LOAD, 4), instruction(JUMP_EQUAL, ARCH_X86_64, 1, 0), instruction(RETURN, KILL)]
    if unit_settings.get("MemoryDenyWriteExecute") == ["yes"]:
        code += check_argument(known["mprotect"], 2, JUMP_SET, 4)  # PROT_EXEC
        code += check_argument(known["pkey_mprotect"], 2, JUMP_SET, 4)
        code += [instruction(LOAD, 0), instruction(JUMP_EQUAL, known["mmap"], 0, 4), instruction(LOAD, 16 + 8 * 2), instruction(AND, 6),
                 instruction(JUMP_EQUAL, 6, 0, 1), instruction(RETURN, KILL)]  # PROT_WRITE and PROT_EXEC
    families = [getattr(__import__("socket"), word) for word in unit_settings["RestrictAddressFamilies"][0].split()]
    code += [instruction(LOAD, 0), instruction(JUMP_EQUAL, known["socket"], 0, len(families) + 2), instruction(LOAD, 16)]
    code += [instruction(JUMP_EQUAL, family, len(families) - i, 0) for i, family in enumerate(families)] + [instruction(RETURN, KILL)]
    code += [instruction(LOAD, 0)]
    for name in sorted(allowed(unit) & set(known)):
        code += [instruction(JUMP_EQUAL, known[name], 0, 1), instruction(RETURN, ALLOW)]
    return b"".join(code + [instruction(RETURN, KILL)])


def filter_calls(code):
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    ready = Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if libc.prctl(22, 2, ctypes.byref(ready), 0, 0) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "seccomp")


def outside():
    unit, *rest = sys.argv[1:]
    writable, command = rest[:rest.index("--")], rest[rest.index("--") + 1:]
    os.umask(int(settings(unit)["UMask"][0], 8))
    assert settings(unit)["ProtectSystem"] == ["strict"] and settings(unit)["CapabilityBoundingSet"] == [""]
    for folder in writable:  # each a mount of its own, which stays as it is
        subprocess.run(["mount", "--bind", folder, folder], check=True)
    for mount in sorted({line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}):
        if mount not in writable and not mount.startswith(("/proc", "/sys", "/dev")):
            subprocess.run(["mount", "-o", "remount,bind,ro", mount], check=False, capture_output=True)
    assert settings(unit)["NoNewPrivileges"] == ["yes"]
    drop = ["setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    os.execvp(drop[0], [*drop, sys.executable, "-B", __file__, unit, "--inside", *command])


def inside():
    unit, command = sys.argv[1], sys.argv[3:]
    filter_calls(program(unit))
    os.execv(command[0], command)


if __name__ == "__main__":
    if sys.argv[2] == "--inside":
        inside()
    outside()
