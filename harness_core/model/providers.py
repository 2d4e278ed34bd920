"""Who offers models: the providers that are known, and what the settings make of them.

Providers are data. The built-in ones can be changed, and others added, in the settings. Nothing
here opens a connection, knows what an API says, or imports a library that is slow to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness_core.model.protocol import ModelInfo, ModelSetupError
from harness_core.model.settings import ModelSettings, ProviderSettings

if TYPE_CHECKING:
    from harness_core.model.http import Endpoint

OPENAI, RESPONSES, ANTHROPIC, DEMO = "openai", "openai-responses", "anthropic", "demo"
KINDS = (ANTHROPIC, DEMO, OPENAI, RESPONSES)
"""The APIs that are spoken."""
ANTHROPIC_VERSION = "2023-06-01"
"""Of the API, sent as a header; there is no later one."""
DEFAULT_MODEL = "demo:demo"
MODEL_VARIABLE = "ACP_HARNESS_MODEL"
SIBLINGS = frozenset((OPENAI, RESPONSES))
"""APIs that live at the same address and take the same key."""


@dataclass(frozen=True, slots=True)
class Preset:
    """What is known about a provider before any setting. Variables are of the environment."""

    kind: str
    base_url: str | None = None
    base_url_variable: str | None = None
    key_variable: str | None = None
    title: str | None = None
    local: bool = False
    """A server that people run on their own machine, at its usual port."""


PRESETS: dict[str, Preset] = {
    "openai": Preset(
        OPENAI, "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OpenAI"
    ),
    "anthropic": Preset(
        ANTHROPIC,
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        "Anthropic",
    ),
    "ollama": Preset(OPENAI, "http://127.0.0.1:11434/v1", title="Ollama", local=True),
    "lmstudio": Preset(OPENAI, "http://127.0.0.1:1234/v1", title="LM Studio", local=True),
    "llamacpp": Preset(OPENAI, "http://127.0.0.1:8080/v1", title="llama.cpp", local=True),
    "vllm": Preset(OPENAI, "http://127.0.0.1:8000/v1", title="vLLM", local=True),
    "demo": Preset(DEMO, title="Demo"),
}


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider as it is to be called: what is known of it, under the settings."""

    id: str
    kind: str
    preset: Preset
    settings: ProviderSettings
    env: Mapping[str, str] = field(repr=False)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.settings.title or self.preset.title or self.id

    def model(self, name: str) -> ModelInfo:
        """What is known of a model: only what was said about it, and that most see images."""
        return ModelInfo(
            self.id,
            name,
            self.settings.context_windows.get(name),
            images=self.settings.images is not False,
            # The Responses API has no place for sounds.
            audio=self.settings.audio is True and self.kind != RESPONSES,
            base_url=self.address,
        )

    @property
    def address(self) -> str | None:
        """Where it is said to be."""
        variable = self.preset.base_url_variable
        from_env = self.env.get(variable) if variable else None
        url = self.settings.base_url or from_env or self.preset.base_url
        if url and self.kind == ANTHROPIC:
            url = url.rstrip("/").removesuffix("/v1")
        return url.rstrip("/") if url else None

    @property
    def base_url(self) -> str:
        """Where it is. Raises ``ModelSetupError``."""
        url = self.address
        if not url:
            raise ModelSetupError(
                f"provider {self.id!r} has no address: set providers.{self.id}.base_url"
            )
        if not (url.startswith(("http://", "https://")) and host_of(url)):
            raise ModelSetupError(
                f"the base URL of provider {self.id!r} has to start with http:// or https://"
            )
        return url

    @property
    def key_variable(self) -> str | None:
        return self.settings.api_key_env or self.preset.key_variable

    @property
    def key(self) -> str | None:
        """Its key, if there is one."""
        variable = self.key_variable
        key = self.settings.api_key or (self.env.get(variable) if variable else None)
        return key.strip() or None if key else None

    def endpoint(self) -> Endpoint:
        """Where and how to call it.

        Raises ``ModelSetupError`` if a key is needed and missing, or the address is wrong.
        """
        from harness_core.model.http import Endpoint

        url, key = self.base_url, self.key
        own = {name.lower(): value for name, value in self.settings.headers.items()}
        if key is None and not (own.keys() & {"authorization", "x-api-key"} or is_near(url)):
            raise ModelSetupError(self._missing_key(), auth=True, variable=self.key_variable)
        return Endpoint(
            provider=self.id,
            base_url=url,
            headers={**self._headers(key), **own},
            body=self.settings.body,
            omit=frozenset(self.settings.omit),
            secrets=tuple(filter(None, (key, *_values(own)))),
            hint=f"check {self.key_variable}" if self.key_variable else "check its api_key",
            idle_timeout=self.settings.idle_timeout,
            connect_timeout=self.settings.connect_timeout,
        )

    def _headers(self, key: str | None) -> dict[str, str]:
        if self.kind != ANTHROPIC:
            return {"authorization": f"Bearer {key}"} if key else {}
        version = {"anthropic-version": ANTHROPIC_VERSION}
        return version | ({"x-api-key": key} if key else {})

    def _missing_key(self) -> str:
        setting = f"providers.{self.id}.api_key_env"
        if self.key_variable is None:
            return f"provider {self.id!r} needs a key: name its variable in {setting}"
        return (
            f"provider {self.id!r} needs a key: set {self.key_variable} in the environment, "
            f"or name another variable in {setting}"
        )


def default_model_id(settings: ModelSettings, env: Mapping[str, str]) -> str:
    """The setting, else the environment's ``ACP_HARNESS_MODEL``, else the demo model."""
    return settings.model or env.get(MODEL_VARIABLE) or DEFAULT_MODEL


def split(model_id: str) -> tuple[str, str]:
    """The provider and the name in a model id. Raises ``ModelSetupError``."""
    provider, colon, name = model_id.partition(":")
    if not (provider and colon and name):
        raise ModelSetupError(
            f"{model_id!r} is not a model id: write provider:name, like {DEFAULT_MODEL}"
        )
    return provider, name


def provider(id: str, settings: ModelSettings, env: Mapping[str, str]) -> Provider:
    """The provider of that id. Raises ``ModelSetupError`` if there is none, or its kind is odd."""
    said = settings.providers.get(id)
    preset = PRESETS.get(id)
    if said is None and preset is None:
        known = ", ".join(sorted(PRESETS.keys() | settings.providers.keys()))
        raise ModelSetupError(
            f"there is no provider {id!r}: known are {known}; "
            f"others can be added in the settings under providers.{id}"
        )
    said = said or ProviderSettings()
    kind = said.kind or (preset.kind if preset else OPENAI)
    if kind not in KINDS:
        raise ModelSetupError(f"providers.{id}.kind is {kind!r}: it can be {', '.join(KINDS)}")
    if preset is None or not (preset.kind == kind or {preset.kind, kind} <= SIBLINGS):
        preset = Preset(kind)
    return Provider(id, kind, preset, said, env)


def callable_providers(settings: ModelSettings, env: Mapping[str, str]) -> Iterator[Provider]:
    """Those that can be called over a network as they are set up.

    The user's own come first, then the built-in ones whose key is set, then local servers. Who has
    named the server on a usual port finds it under that name only.
    """
    seen: set[str] = set()
    for id in dict.fromkeys((*settings.providers, *PRESETS)):
        try:
            found = provider(id, settings, env)
            if found.kind == DEMO:
                continue
            found.endpoint()
        except ModelSetupError:
            continue
        place = found.base_url.replace("//localhost", "//127.0.0.1")
        if id in settings.providers or place not in seen:
            seen.add(place)
            yield found


def host_of(url: str) -> str:
    """The host that a URL names, empty if it names none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_near(url: str) -> bool:
    """Whether a server is on this machine or network, where a key is usually not asked for."""
    import ipaddress

    host = host_of(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
    return address.is_private or address.is_loopback


def _values(headers: Mapping[str, str]) -> list[str]:
    """What has to be kept out of error texts, of headers that somebody set."""
    return [part for value in headers.values() for part in value.split() if len(part) >= 8]
