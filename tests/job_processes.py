"""The processes of a job that `tessera train` has started: by rank, and sent signals to."""
import os
import pathlib


def ranks_of(launcher):
    """Process ids by rank."""
    out = {}
    try:
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    except OSError:
        return out
    for entry in children:
        try:
            variables = pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(b"TESSERA_RANK="):
                out[int(variable.split(b"=")[1])] = int(entry)
    return out


def send(process, what):
    try:
        os.kill(process, what)
    except ProcessLookupError:
        pass
