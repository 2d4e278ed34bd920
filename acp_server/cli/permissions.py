"""``acp-harness permissions``: what was allowed or rejected for good, and how to take it back."""

from __future__ import annotations

import os
import sys

from harness_core.config import Config, ConfigError, data_dir
from harness_core.plugins.rule_store import RuleStore, RuleStoreError


def permissions(scope: str | None, project: str | None) -> int:
    """List every remembered answer, or revoke ``scope`` of a project; the exit status."""
    try:
        rules = RuleStore(data_dir(Config.load().for_cwd(None)) / "permissions.json")
        if scope is None:
            return _list(rules)
        place = os.path.realpath(project or os.getcwd())
        if rules.revoke(place, scope):
            return _say(f"Revoked {scope} in {place}.", 0)
        return _say(f"There is no answer remembered for {scope} in {place}.", 1)
    except (ConfigError, RuleStoreError) as failure:
        return _say(str(failure), 1)


def _list(rules: RuleStore) -> int:
    for project, found in rules.projects().items():
        _say(project, 0)
        for rule in found:
            _say(f"  {'allow ' if rule.allow else 'reject'} {rule.scope}", 0)
    return 0


def _say(text: str, status: int) -> int:
    print(text, file=sys.stderr if status else sys.stdout)
    return status
