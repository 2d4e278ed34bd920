"""harness_core runs agents: a session is an append-only log of facts, all else is derived."""

__version__ = "0.1.0"
