"""A notebook without a screen: runs cells in a Jupyter kernel for whoever is at its stdin.

    python notebook.py KERNEL

Runs under the Python that the kernel is installed for. Each line on stdin is JSON, and each gets
a line of JSON when it is done: ``{"run": CELL}`` the messages that the cell showed, ``{"start":
CELL}`` and ``{"interrupt": ""}`` just ``[]``. When stdin ends, the kernel is shut down.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from jupyter_client import BlockingKernelClient, KernelManager

PATIENCE = 60.0


def do(action: dict[str, Any], kernel: KernelManager, client: BlockingKernelClient) -> list[Any]:
    """What the kernel has shown until it was done."""
    shown: list[Any] = []
    match action:
        case {"run": cell}:
            client.execute_interactive(cell, output_hook=shown.append, timeout=PATIENCE)
        case {"start": cell}:
            client.execute(cell)
        case {"interrupt": _}:
            kernel.interrupt_kernel()
    return [[message["msg_type"], message["content"]] for message in shown]


def main(name: str) -> None:
    kernel = KernelManager(kernel_name=name, shutdown_wait_time=PATIENCE)
    kernel.start_kernel(stdout=sys.stderr)
    client = kernel.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE)
        for line in sys.stdin:
            print(json.dumps(do(json.loads(line), kernel, client)), flush=True)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel()


if __name__ == "__main__":
    main(sys.argv[1])
