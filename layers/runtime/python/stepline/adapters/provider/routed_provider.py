"""Several providers as one ModelProvider: a role's model names the one that serves it, as in `openai:gpt-5.5`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from stepline.ports.model import (
    DECISION_ROLE,
    DEFAULT_ROLE,
    ModelProvider,
    ModelRequest,
    ProviderCall,
    RoleChoice,
    split_model,
)


class RoutedProvider:
    """Providers by their names; a model without a name is served by the default one, whose name is ""."""

    def __init__(self, providers: Mapping[str, ModelProvider], roles: Mapping[str, RoleChoice]) -> None:
        """Store the providers; that of the decision in `roles` is warmed, and named in traces."""
        self._providers = dict(providers)
        decides = roles.get(DECISION_ROLE) or roles[DEFAULT_ROLE]
        self._first, _ = self._find(decides)
        self.default_model = self._providers[""].default_model
        self.traced_as = self._first.traced_as

    def call(self, request: ModelRequest, role: RoleChoice) -> ProviderCall:
        provider, own = self._find(role)
        return provider.call(request, own)

    def warm(self) -> None:
        self._first.warm()

    def find_refusals(self, role: RoleChoice) -> list[str]:
        provider, own = self._find(role)
        return provider.find_refusals(own)

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        name, bare = split_model(model)
        return self._providers[name].cache_minimum(bare, own)

    def close(self) -> None:
        for provider in self._providers.values():
            provider.close()

    def _find(self, role: RoleChoice) -> tuple[ModelProvider, RoleChoice]:
        """Return the provider of a role, and the role with the model's own name."""
        name, bare = split_model(role.model)
        return self._providers[name], replace(role, model=bare)
