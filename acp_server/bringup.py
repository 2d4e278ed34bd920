"""What has to be there before the first session: settings, log, journal, harness.

Everything heavy is imported here and in what this imports, after ``initialize`` was answered.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from acp_server.capabilities import ClientCapabilities
from acp_server.framing import INTERNAL_ERROR
from acp_server.host import Host
from acp_server.logs import Logging
from acp_server.rpc import Peer, RpcError
from harness_core.config import Config, ConfigError, data_dir, user_file
from harness_core.credentials import CredentialError, Vault, environment, vault
from harness_core.harness import Harness
from harness_core.journal.jsonl import JsonlJournal
from harness_core.plugins.rule_store import RuleStore

log = logging.getLogger(__name__)


@asynccontextmanager
async def bring_up(
    flags: Mapping[str, Any], peer: Peer, client: ClientCapabilities
) -> AsyncIterator[Host]:
    """A host over a running harness. Raises ``RpcError`` that tells what to repair."""
    try:
        config = Config.load(flags=flags)
        settings = config.for_cwd(None)
        logs = Logging(settings)
    except ConfigError as failure:
        raise _misconfigured(str(failure)) from None
    except OSError as failure:
        raise _misconfigured(f"setting log_file: {failure}") from None
    with logs, _failures_logged():
        journal = JsonlJournal(data_dir(settings) / "sessions")
        rules = RuleStore(data_dir(settings) / "permissions.json")
        keys = vault(user_file(os.environ).parent)
        env = _environment(keys)
        async with Harness(journal=journal, config=config, rules=rules, env=env) as harness:
            host = Host(harness, peer, client, keys)
            try:
                yield host
            finally:
                await host.aclose()


@contextmanager
def _failures_logged() -> Iterator[None]:
    """What nobody has foreseen is told to the log, while there is one, and not to the client."""
    try:
        yield
    except RpcError:
        raise
    except Exception:
        log.exception("the agent failed")
        raise RpcError(INTERNAL_ERROR, "the agent failed; its log tells why") from None


def _misconfigured(why: str) -> RpcError:
    return RpcError(INTERNAL_ERROR, why, {"reason": "settings"})


def _environment(keys: Vault) -> Mapping[str, str]:
    """The environment over the stored keys; without these if they cannot be had."""
    try:
        return environment(keys, os.environ)
    except CredentialError as failure:
        log.warning("%s", failure)
        return os.environ
