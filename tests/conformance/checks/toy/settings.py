"""Modes and options of a session, kept in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toy.mutation import broken
from toy.peer import INTERNAL, INVALID_PARAMS, Failure, Json

if TYPE_CHECKING:
    from toy.session import Session

MODES = [{"id": "code", "name": "Code"}, {"id": "ask", "name": "Ask"}]
EFFORTS = [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}]


class Settings:
    """What the user has set in one session."""

    def __init__(self, session: Session, booleans: bool) -> None:
        self._session = session
        self._booleans = booleans
        self.mode = "code"
        self.effort = "none" if broken("CFG-01.default") else "low"
        self.verbose = False

    def modes(self) -> Json:
        return {"currentModeId": self.mode, "availableModes": MODES}

    def options(self) -> list[Json]:
        modes = [{"value": mode["id"], "name": mode["name"]} for mode in MODES]
        found: list[Json] = [
            _select("effort", "Effort", "thought_level", self.effort, EFFORTS),
            _select("mode", "Mode", "mode", self.mode, modes),
        ]
        if self._booleans or broken("BOOL-01"):
            found.append(
                {
                    "id": "verbose",
                    "name": "Verbose",
                    "type": "boolean",
                    "currentValue": self.verbose,
                }
            )
        return found

    def set_mode(self, mode: Any) -> Json:
        if broken("MODE-01"):
            raise Failure(INTERNAL, "Modes cannot be set")
        known = any(mode == offered["id"] for offered in MODES)
        if not known and not broken("MODE-01.unknown"):
            code = INTERNAL if broken("MODE-01.code") else INVALID_PARAMS
            raise Failure(code, "There is no such mode")
        self.mode = mode
        if not broken("CFG-02"):
            self._tell("config_option_update", configOptions=self.options())
        return {}

    def set_option(self, id: Any, value: Any, kind: Any) -> Json:
        option = next((o for o in self.options() if o["id"] == id), None)
        if option is None and not broken("CFG-01.unknown"):
            raise Failure(INVALID_PARAMS, "There is no such option")
        if option is not None and not _fits(option, value, kind):
            raise Failure(INVALID_PARAMS, "There is no such value")
        self._assign(id, value)
        found = self.options()
        return {"configOptions": [o for o in found if o["id"] == id] if broken("CFG-01") else found}

    def _tell(self, kind: str, **fields: Any) -> None:
        self._session.tell({"sessionUpdate": kind, **fields})

    def _assign(self, id: Any, value: Any) -> None:
        if id == "mode" and value != self.mode:
            self.mode = value
            if not broken("CFG-02"):
                self._tell("current_mode_update", currentModeId=value)
        elif id == "effort":
            self.effort = value
        elif id == "verbose":
            self.verbose = value


def _select(id: str, name: str, category: str, current: str, values: list[Json]) -> Json:
    fixed = {"id": id, "name": name, "category": category, "type": "select"}
    return {**fixed, "currentValue": current, "options": values}


def _fits(option: Json, value: Any, kind: Any) -> bool:
    if option["type"] == "boolean":
        return isinstance(value, bool) and kind == "boolean" and not broken("BOOL-01.set")
    return value == option["currentValue"] or any(value == o["value"] for o in option["options"])
