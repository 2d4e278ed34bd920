"""The catalogue of checks: what a correct ACP agent does, one function for each rule.

Importing this package enters every check into ``CATALOGUE``. The modules are one per subject;
their order is the order of the catalogue.
"""

from conformance.checks import (  # noqa: I001 - the order is the catalogue's
    io,
    lifetime,
    rpc,
    init,
    auth,
    new,
    load,
    listing,
    close,
    fork,
    turn,
    cancel,
    tools,
    client_tools,
    settings,
    extras,
    field,
)
from conformance.checks.catalogue import CATALOGUE, Catalogue, Check

SUBJECTS = (
    io,
    lifetime,
    rpc,
    init,
    auth,
    new,
    load,
    listing,
    close,
    fork,
    turn,
    cancel,
    tools,
    client_tools,
    settings,
    extras,
    field,
)

__all__ = ["CATALOGUE", "SUBJECTS", "Catalogue", "Check"]
