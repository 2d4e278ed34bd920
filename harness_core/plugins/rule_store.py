"""Permission rules that outlive a session: one readable file, by project.

    {"/path/to/project": {"shell:git status": true, "edit": false}}

Read when asked for and written atomically; of two processes that change it at the same moment the
later wins.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from harness_core.plugins.rules import Rule
from harness_core.private import write_private


class RuleStoreError(Exception):
    """The file cannot be used. The message says which and why."""


class RuleStore:
    """The rules in ``path``. A project is the real path of its directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rules(self, project: str) -> list[Rule]:
        """The rules of a project. Raises ``RuleStoreError``."""
        return [Rule(scope, allow) for scope, allow in self._read().get(project, {}).items()]

    def projects(self) -> dict[str, list[Rule]]:
        """All rules by project. Raises ``RuleStoreError``."""
        return {project: self.rules(project) for project in sorted(self._read())}

    def remember(self, project: str, rule: Rule) -> None:
        """Add or replace a rule. Raises ``RuleStoreError``."""
        everything = self._read()
        everything.setdefault(project, {})[rule.scope] = rule.allow
        self._write(everything)

    def revoke(self, project: str, scope: str) -> bool:
        """Take a rule back; whether there was one. Raises ``RuleStoreError``."""
        everything = self._read()
        found = everything.get(project, {}).pop(scope, None) is not None
        if found:
            self._write({name: rules for name, rules in everything.items() if rules})
        return found

    def _read(self) -> dict[str, dict[str, bool]]:
        try:
            data = orjson.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as failure:
            raise RuleStoreError(f"{self.path} cannot be read: {failure}") from None
        if not _valid(data):
            raise RuleStoreError(
                f"{self.path} is not a file of permission rules; remove or mend it"
            )
        return dict(data)

    def _write(self, everything: dict[str, dict[str, bool]]) -> None:
        text = orjson.dumps(everything, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        try:
            write_private(self.path, text)
        except OSError as failure:
            raise RuleStoreError(f"{self.path} cannot be written: {failure}") from None


def _valid(data: object) -> bool:
    return isinstance(data, dict) and all(
        isinstance(rules, dict) and all(isinstance(allow, bool) for allow in rules.values())
        for rules in data.values()
    )
