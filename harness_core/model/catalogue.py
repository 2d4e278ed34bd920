"""Which models there are: from ``provider:name`` to a model that can be called.

Providers are data. The built-in ones can be changed, and others added, in the settings; nothing
here opens a connection or imports a library that is slow to import.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from harness_core.model.demo import CONTEXT_WINDOW, DemoModel
from harness_core.model.http import Endpoint
from harness_core.model.protocol import Model, ModelInfo, ModelSetupError
from harness_core.model.settings import ModelSettings, ProviderSettings

DEFAULT_MODEL = "demo:demo"
MODEL_VARIABLE = "ACP_HARNESS_MODEL"


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known about a provider before any setting. Variables are of the environment."""

    kind: str
    base_url: str | None = None
    base_url_variable: str | None = None
    key_variable: str | None = None


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("openai", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "anthropic": Provider(
        "anthropic", "https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"
    ),
    "demo": Provider("demo"),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider with its settings and one of its models: all that a model is made of."""

    provider: str
    name: str
    defaults: Provider
    settings: ProviderSettings
    env: Mapping[str, str] = field(repr=False)

    @property
    def info(self) -> ModelInfo:
        """What is known of the model: only what was said about it, and that most see images."""
        return ModelInfo(
            self.provider,
            self.name,
            self.settings.context_windows.get(self.name),
            images=self.settings.images is not False,
            audio=self.settings.audio is True,
        )

    @property
    def base_url(self) -> str:
        """Where it is. Raises ``ModelSetupError``."""
        variable = self.defaults.base_url_variable
        url = (
            self.settings.base_url
            or (self.env.get(variable) if variable else None)
            or self.defaults.base_url
        )
        if not url:
            raise ModelSetupError(
                f"provider {self.provider!r} has no address: set providers.{self.provider}.base_url"
            )
        if not (url.startswith(("http://", "https://")) and host_of(url)):
            raise ModelSetupError(
                f"the base URL of provider {self.provider!r} has to start with http:// or https://"
            )
        return url.rstrip("/")

    @property
    def key_variable(self) -> str | None:
        return self.settings.api_key_env or self.defaults.key_variable

    @property
    def key(self) -> str | None:
        """Its key, if there is one."""
        variable = self.key_variable
        key = self.settings.api_key or (self.env.get(variable) if variable else None)
        return key.strip() or None if key else None

    def endpoint(self, headers: Callable[[str], Mapping[str, str]], base_url: str) -> Endpoint:
        """Where and how to call it; ``headers`` makes some from the key.

        Raises ``ModelSetupError`` if a key is needed and missing.
        """
        own = {name.lower(): value for name, value in self.settings.headers.items()}
        key = self.key
        if key is None and not (own.keys() & {"authorization", "x-api-key"} or is_near(base_url)):
            raise ModelSetupError(self._missing_key(), auth=True)
        return Endpoint(
            provider=self.provider,
            base_url=base_url,
            headers={**(headers(key) if key else {}), **own},
            body=self.settings.body,
            secrets=tuple(filter(None, (key, *_values(own)))),
            hint=f"check {self.key_variable}" if self.key_variable else "check its api_key",
            idle_timeout=self.settings.idle_timeout,
            connect_timeout=self.settings.connect_timeout,
        )

    def _missing_key(self) -> str:
        setting = f"providers.{self.provider}.api_key_env"
        if self.key_variable is None:
            return f"provider {self.provider!r} needs a key: name its variable in {setting}"
        return (
            f"provider {self.provider!r} needs a key: set {self.key_variable} in the environment, "
            f"or name another variable in {setting}"
        )


def resolve(model_id: str | None, settings: ModelSettings, env: Mapping[str, str]) -> Model:
    """The model of that id, or the default one. Raises ``ModelSetupError``."""
    choice = choose(model_id or default_model_id(settings, env), settings, env)
    return KINDS[choice.defaults.kind](choice)


def default_model_id(settings: ModelSettings, env: Mapping[str, str]) -> str:
    """The setting, else the environment's ``ACP_HARNESS_MODEL``, else the demo model."""
    return settings.model or env.get(MODEL_VARIABLE) or DEFAULT_MODEL


def choose(model_id: str, settings: ModelSettings, env: Mapping[str, str]) -> Choice:
    """What ``model_id`` means under these settings. Raises ``ModelSetupError``."""
    provider, colon, name = model_id.partition(":")
    if not (provider and colon and name):
        raise ModelSetupError(
            f"{model_id!r} is not a model id: write provider:name, like {DEFAULT_MODEL}"
        )
    said = settings.providers.get(provider)
    defaults = PROVIDERS.get(provider)
    if said is None and defaults is None:
        known = ", ".join(sorted(PROVIDERS.keys() | settings.providers.keys()))
        raise ModelSetupError(
            f"there is no provider {provider!r}: known are {known}; "
            f"others can be added in the settings under providers.{provider}"
        )
    said = said or ProviderSettings()
    kind = said.kind or (defaults.kind if defaults else "openai")
    if kind not in KINDS:
        raise ModelSetupError(
            f"providers.{provider}.kind is {kind!r}: it can be {', '.join(sorted(KINDS))}"
        )
    if defaults is None or defaults.kind != kind:
        defaults = Provider(kind)
    return Choice(provider, name, defaults, said, env)


def host_of(url: str) -> str:
    """The host that a URL names, empty if it names none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_near(url: str) -> bool:
    """Whether a server is on this machine or network, where a key is usually not asked for."""
    host = host_of(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
    return address.is_private or address.is_loopback


def _values(headers: Mapping[str, str]) -> list[str]:
    """What has to be kept out of error texts, of headers that somebody set."""
    return [part for value in headers.values() for part in value.split() if len(part) >= 8]


# --- how a model of each kind is made ----------------------------------------------------------


def _demo(choice: Choice) -> Model:
    window = choice.settings.context_windows.get(choice.name, CONTEXT_WINDOW)
    return DemoModel(choice.name, context_window=window)


def _openai(choice: Choice) -> Model:
    from harness_core.model.openai import OpenAIModel

    base = choice.base_url
    official = host_of(base).endswith((".openai.com", ".azure.com"))
    return OpenAIModel(
        choice.info,
        choice.endpoint(lambda key: {"authorization": f"Bearer {key}"}, base),
        reasoning_field=choice.settings.reasoning_field,
        # Its newer name is the only one that OpenAI's reasoning models accept; others know the old.
        limit_field="max_completion_tokens" if official else "max_tokens",
    )


def _anthropic(choice: Choice) -> Model:
    from harness_core.model.anthropic import VERSION, AnthropicModel

    endpoint = choice.endpoint(lambda key: {"x-api-key": key}, choice.base_url.removesuffix("/v1"))
    headers = {"anthropic-version": VERSION, **endpoint.headers}
    return AnthropicModel(choice.info, replace(endpoint, headers=headers))


KINDS: dict[str, Callable[[Choice], Model]] = {
    "anthropic": _anthropic,
    "demo": _demo,
    "openai": _openai,
}
"""The APIs that are spoken, and how a model behind each is made."""
