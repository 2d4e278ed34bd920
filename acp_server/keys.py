"""Signing in and out: the keys that the agent uses on one connection.

A key comes from the environment or the vault; one that is missing is asked for on a page, where
the client opens pages. None ever passes through the protocol.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from acp_server.capabilities import AUTH_METHODS, ClientCapabilities
from acp_server.elicitation import ClientUser
from acp_server.framing import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS
from acp_server.rpc import Inbound, Params, Peer, RpcError
from harness_core.credentials import CredentialError, Vault, entered, environment, store
from harness_core.harness import Harness
from harness_core.model.protocol import ModelSetupError


class Keys:
    """Those of the harness's configured model."""

    def __init__(
        self, harness: Harness, peer: Peer, client: ClientCapabilities, vault: Vault
    ) -> None:
        self.signed_out = False
        """Whether the client wants no key to be used, until it signs in again."""
        self._harness = harness
        self._peer = peer
        self._client = client
        self._vault = vault
        self._signing_in: set[Inbound] = set()

    async def authenticate(self, inbound: Inbound, method: str) -> Params:
        """Look for keys again, and check that the model can be used (V1-AUTH-05).

        A terminal method is not for here (V1-AUTH-04).
        """
        if method not in (entry["id"] for entry in AUTH_METHODS):
            raise RpcError(INVALID_PARAMS, f"there is no auth method {method[:128]!r}")
        await self._look()
        missing = self._trouble()
        if missing is not None and missing.variable and self._client.elicit_url:
            await self._sign_in(inbound, missing.variable)
            await self._look()
        self.require()
        self.signed_out = False
        return {}

    async def logout(self) -> Params:
        """Stored keys are forgotten, the environment's not used (V1-AUTH-12)."""
        try:
            self._vault.write(None)
        except CredentialError as failure:
            raise RpcError(INTERNAL_ERROR, str(failure)) from None
        self.signed_out = True
        await self._harness.set_environment({})
        return {}

    def require(self) -> None:
        """Raise ``RpcError`` (-32000) if the configured model lacks its key."""
        if (trouble := self._trouble()) is not None:
            raise _auth_required(str(trouble))

    def leave(self) -> None:
        """The client has gone: nobody will sign in any more."""
        for inbound in self._signing_in:
            inbound.cancel()

    async def _look(self) -> None:
        """Take the keys that are stored now, and those of the environment."""
        try:
            env = environment(self._vault, os.environ)
        except CredentialError as failure:
            raise _auth_required(str(failure)) from None
        await self._harness.set_environment(env)

    def _trouble(self) -> ModelSetupError | None:
        """Why the configured model cannot be used, if it cannot."""
        try:
            self._harness.runtime.model(self._harness.settings.model)
        except ModelSetupError as failure:
            return failure
        return None

    async def _sign_in(self, inbound: Inbound, variable: str) -> None:
        """Have a key entered on a page that belongs to this request (V1-ELIC-04)."""
        from acp_server.sign_in import NotSignedIn, sign_in

        async def ask(method: str, params: dict[str, Any]) -> Any:
            return await self._peer.request(method, {"requestId": inbound.id, **params})

        async def keep(text: str) -> None:
            await asyncio.to_thread(store, self._vault, variable, entered(text))

        self._signing_in.add(inbound)
        inbound.when_unwanted(inbound.abort)
        try:
            await sign_in(variable, keep, ClientUser(self._client, ask, self._peer.notify))
        except NotSignedIn as failure:
            instead = f"sign in again, or set {variable} where the editor starts the agent"
            raise _auth_required(f"{failure}: {instead}") from None
        finally:
            inbound.when_unwanted(lambda: None)
            self._signing_in.remove(inbound)


def _auth_required(why: str) -> RpcError:
    return RpcError(AUTH_REQUIRED, why, {"authMethods": AUTH_METHODS})
