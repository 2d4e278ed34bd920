"""``python -m conformance.model_server --port N``: the model server on its own."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress

from conformance.model_server import directives
from conformance.model_server.server import ModelServer


def main() -> None:
    """Serve until interrupted; the base URLs are printed first, one a line."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.model_server",
        description="A scripted model on 127.0.0.1, steered by directives in the prompt.",
        epilog=directives.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="TCP port (default: any free one)")
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args().port))


async def _serve(port: int) -> None:
    async with ModelServer(port=port) as server:
        lines = (server.openai_base_url, server.anthropic_base_url)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    main()
