"""llama.cpp's own server for one model: llama.py HOST PORT MODEL.gguf [SLOTS]. It speaks OpenAI's interface under /v1.

It prints its address when it answers, and runs until it is told to end. The variable LLAMA_THREADS bounds its threads.
"""

import os
import signal
import sys

import xllamacpp

# Tokens of context for each slot.
CONTEXT = 4096


def main(host, port, model, slots="2"):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = [host]
    params.port = int(port)
    params.n_parallel = int(slots)
    params.n_ctx = CONTEXT * params.n_parallel
    threads = os.environ.get("LLAMA_THREADS")
    if threads:
        params.cpuparams.n_threads = int(threads)
        params.cpuparams_batch.n_threads = int(threads)
    server = xllamacpp.Server(params)
    print(f"ready on {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    # The server's own threads do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main(*sys.argv[1:])
