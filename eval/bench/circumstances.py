"""What a bench says of its run beside its figures."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def circumstances() -> dict:
    """The commit that is checked out, with a "+" if files of it have changed; the machine; the command."""
    return {"commit": commit(), "machine": machine(), "command": command()}


def commit() -> str:
    changed = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "HEAD") + changed


def machine() -> dict:
    """The processor, the cores that this process may use, and how many others wanted one in the last minutes."""
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    wide = [name for name in ("avx2", "avx512_vnni") if any(line.startswith("flags") and name in line.split() for line in lines)]
    return {"cpu": (names or ["unknown"])[0], "has": wide, "cores": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()}


def command() -> str:
    """As it was typed, without the paths of this machine."""
    data = os.environ.get("SPECHOP_DATA_DIR")
    words = [word.replace(data, "$SPECHOP_DATA_DIR") if data else word for word in sys.argv[1:]]
    script = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)
    return " ".join([str(script), *words]).replace(f"{ROOT}/", "")


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
