"""Validation of JSON against a given JSON Schema."""

from typing import Any, final

import jsonschema_rs
from attrs import frozen

from ._errors import DefinitionError
from ._json import FrozenDict, JsonValue, thaw
from ._violations import Path, Report, member


@final
@frozen(eq=False)
class Validator:
    """A compiled JSON Schema."""

    _compiled: Any

    def check(self, value: JsonValue, *, root: str) -> None:
        """Raises `Violations` with every violation; `root` is what the root of the value is called."""
        if self._compiled.is_valid(value):
            return
        report = Report(root)
        for error in self._compiled.iter_errors(value):
            _explain(error, report)
        raise report.violations()


def _explain(error: Any, report: Report) -> None:
    path: Path = None
    for step in error.instance_path:
        path = member(path, step)
    report.sentence(path, error.message)


def compile_schema(schema: FrozenDict, what: str) -> Validator:
    """Compiles a schema; raises `DefinitionError` for one that is none."""
    plain: Any = thaw(schema)
    try:
        return Validator(jsonschema_rs.validator_for(plain, validate_formats=True, offline=True))
    except ValueError as error:
        raise DefinitionError(f"{what} is no JSON Schema: {error}") from error
