"""openssl, and a system that believes whom a test says."""

import pathlib
import subprocess


def openssl(*args, stdin=None):
    done = subprocess.run(["openssl", *map(str, args)], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def system_authorities(folder, *certificates):
    """What a command is begun with, so that for it the system's authorities are these alone."""
    folder.mkdir()
    (folder / "ca-certificates.crt").write_bytes(b"".join(pathlib.Path(each).read_bytes() for each in certificates))
    for certificate in certificates:
        name = openssl("x509", "-noout", "-subject_hash", "-in", certificate).strip()
        (folder / f"{name}.0").write_bytes(pathlib.Path(certificate).read_bytes())
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc/ssl/certs && exec "$@"', str(folder)]
