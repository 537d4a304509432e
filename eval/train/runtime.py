"""Sessions of ONNX Runtime that compute as the service does."""

from __future__ import annotations

from pathlib import Path


def cpu_options(threads: int):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    if sums_may_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def sums_may_overflow() -> bool:
    """Whether this processor has no integer dot products: then sums of 8-bit products overflow unless the runtime is told to
    be exact. With them it would only become slower."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), None)
    return flags is not None and not {"avx512_vnni", "avx_vnni"} & set(flags)
