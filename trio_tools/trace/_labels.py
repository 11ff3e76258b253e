"""What people read beside the data, in the languages that there are catalogues for."""

import gettext
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, Literal, TypeAlias

__all__ = ["LANGUAGES", "Language", "labels", "outcome_key"]

Language: TypeAlias = Literal["en", "de"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "de")


def outcome_key(outcome: str) -> str:
    """Returns the key of an outcome's label; its last part is the stored string itself (`TL-3`)."""
    return f"runs.detail.outcome.{outcome}"


class _Catalogue(gettext.GNUTranslations):
    """A compiled catalogue that can be listed."""

    _catalog: dict[object, str]

    def entries(self) -> dict[str, str]:
        """Return every label by its key."""
        return {key: text for key, text in self._catalog.items() if isinstance(key, str) and key}


@cache
def labels(language: Language) -> Mapping[str, str]:
    """Returns the labels of a language by their keys (`TL-4`).

    Raises:
        ValueError: there is no catalogue for the language.
    """
    if language not in LANGUAGES:
        raise ValueError(f"there are labels in {', '.join(LANGUAGES)}, not in {language!r}")
    catalogue = files("trio_tools.trace").joinpath("locale", language, "LC_MESSAGES", "trio_tools.mo")
    with catalogue.open("rb") as stream:
        return _Catalogue(stream).entries()
