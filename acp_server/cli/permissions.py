"""``acp-harness permissions``: what is allowed or rejected for good, and how to change that."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from harness_core.config import Config, ConfigError, data_dir
from harness_core.plugins.rule_store import RuleStore, RuleStoreError
from harness_core.plugins.rules import Rule, written
from harness_core.tools.builtin import TOOLS


def permissions(project: str, changes: Mapping[str, str]) -> int:
    """List everything that is remembered, or change it in ``project``; the exit status.

    ``changes`` are scopes by what is to happen to them: ``allow``, ``reject`` or ``revoke``.
    """
    place = os.path.realpath(project)
    try:
        store = RuleStore(data_dir(Config.load().for_cwd(None)) / "permissions.json")
        if not changes:
            return _list(store)
        return max(_change(store, place, verb, scope) for verb, scope in changes.items())
    except (ConfigError, RuleStoreError, ValueError) as failure:
        return _say(str(failure), 1)


def _change(store: RuleStore, project: str, verb: str, scope: str) -> int:
    if verb == "revoke":
        if store.revoke(project, scope):
            return _say(f"Revoked {scope} in {project}.", 0)
        return _say(f"There is no answer remembered for {scope} in {project}.", 1)
    asking = {tool.name for tool in TOOLS if tool.effect == "changes"}
    rule = Rule(written(scope, asking), allow=verb == "allow")
    store.remember(project, rule)
    return _say(f"{'Allowed' if rule.allow else 'Rejected'} {rule.scope} in {project}.", 0)


def _list(store: RuleStore) -> int:
    for project, found in store.projects().items():
        _say(project, 0)
        for rule in found:
            _say(f"  {'allow ' if rule.allow else 'reject'} {rule.scope}", 0)
    return 0


def _say(text: str, status: int) -> int:
    print(text, file=sys.stderr if status else sys.stdout)
    return status
