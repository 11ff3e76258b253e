"""Validation of JSON against a given JSON Schema: the compiled validator decides, a walk explains.

`jsonschema_rs` says whether a value is valid, at a speed that leaves nothing to wish. It stops short of two
kinds of values that are admitted here: containers that nest deeper than it can take in, and integers so large
that it reads them as null. And what it reports comes in an order of its own, in words of its own.

So there is a second reading of the same schema, the walk: it goes through schema and value in one order,
reports every violation in the words of `JS-15`, and needs no stack, however deep the value (`JS-5`). It is
asked when the compiled validator has said no, and alone decides about values that the other cannot read. What
concerns a single string or number it leaves to validators compiled for just that, so that patterns, formats
and decimal arithmetic are the same in both.
"""

from collections.abc import Callable, Generator, Iterable
from fractions import Fraction
from typing import Any, Final, TypeAlias, final

from attrs import define, field, frozen

from ._dialect import DRAFT_7, Reading, Resource
from ._errors import DefinitionError
from ._json import FrozenDict, FrozenList, JsonValue, json_equal, kind_of, thaw, to_json_text
from ._text import clipped, to_canonical_text
from ._violations import Place, Report

# How deep a value the compiled validator takes in, with a margin.
_COMPILED_DEPTH: Final = 200
# The compiled validator reads an integer as text, and `str` may be limited to as few as 640 digits.
_HUGE: Final = 10**600
# Characters of what is said about a schema that is none.
_REFUSED: Final = 500
# A longer string is not repeated in a message about it.
_QUOTED: Final = 100


@final
@frozen(eq=False, repr=False)
class Validator:
    """A JSON Schema, compiled."""

    _compiled: Any
    _walk: "_Walk"

    def check(self, value: JsonValue, *, root: str) -> None:
        """Raises `Violations` with every violation; `root` is what the root of the value is called."""
        readable = _is_readable(value)
        if readable and self._compiled.is_valid(value):
            return
        report = Report(root)
        self._walk.explain(value, report)
        if readable and not report.count:
            # The two readings of the schema disagree. The compiled one decides, and has to say why.
            for error in self._compiled.iter_errors(value):
                report.sentence(_place_of(error.instance_path), error.message)
        if report.count:
            raise report.violations()


def compile_schema(schema: FrozenDict, what: str) -> Validator:
    """Compiles a schema; raises `DefinitionError` for one that is none or cannot be enforced whole."""
    reading = Reading(schema, what)
    try:
        compiled = _compiled(thaw(schema))
    except ValueError as error:
        text = clipped(str(error).partition("\n")[0], _REFUSED)
        raise DefinitionError(f"{what} is no JSON Schema: {text}") from error
    return Validator(compiled, _Walk(reading))


def _compiled(schema: Any, mask: str | None = None) -> Any:
    # A tenth of the time that importing the library takes, and tools made of functions never need it.
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        schema,
        validate_formats=True,
        ignore_unknown_formats=False,
        retriever=_fetch_nothing,
        mask=mask,
    )


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema, and nothing is ever fetched")


def _place_of(steps: Iterable[str | int]) -> Place:
    place = Place()
    for step in steps:
        place = place.member(step)
    return place


def _is_readable(value: JsonValue) -> bool:
    """Tells whether the compiled validator can take the value in as it is."""
    level: list[Any] = [value]
    for _ in range(_COMPILED_DEPTH + 1):
        # By identity: a container that is shared is looked at once in each level.
        below: dict[int, Any] = {}
        for container in level:
            for each in _members(container):
                kind = kind_of(each)
                if kind is int:
                    if not -_HUGE < each < _HUGE:
                        return False
                elif kind is FrozenDict or kind is FrozenList:
                    below[id(each)] = each
        if not below:
            return True
        level = list(below.values())
    return False


def _members(value: Any) -> Iterable[Any]:
    kind = kind_of(value)
    return value.values() if kind is FrozenDict else value if kind is FrozenList else (value,)


_Schema: TypeAlias = Any


@define(eq=False, repr=False)
class _Seen:
    """Which members of a value a schema has evaluated, for the `unevaluated` keywords."""

    keys: set[str] = field(factory=set[str])
    items: set[int] = field(factory=set[int])

    def add(self, other: "_Seen") -> None:
        self.keys |= other.keys
        self.items |= other.items


# What an evaluation asks for: another one, of which it is sent what was seen.
_Request: TypeAlias = tuple[_Schema, JsonValue, Place, Report, tuple[Resource, ...]]
_Evaluation: TypeAlias = Generator[_Request, Any, _Seen]


@define(eq=False, repr=False)
class _Running:
    """An evaluation under way."""

    steps: _Evaluation
    key: tuple[int, Place]
    scope: tuple[Resource, ...]
    judge: Report
    # How much the judge had counted before.
    count: int
    # The outermost evaluation under way that this one came back to, by its position.
    outermost: int


@final
class _Walk:
    """The reading of a schema that explains."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._draft = reading.draft
        # Made on demand: few schemas ever have to explain themselves. The keys are the ids of parts of the
        # schema, which lives as long as the reading.
        self._leaves: dict[tuple[int, str | None], Any] = {}
        self._patterns: dict[str, Any] = {}
        self._options: dict[int, frozenset[str]] = {}

    def explain(self, value: JsonValue, report: Report) -> None:
        """Adds every violation of the value, in walk order."""
        # Evaluations are generators on a list, since Python's stack is not as deep as values may be.
        running: list[_Running] = []
        active: dict[tuple[int, Place], int] = {}
        # What is known of a place is not asked again: branches that share their parts would otherwise take
        # time exponential in the depth of the value. A known evaluation that reported has nothing to add.
        known: dict[tuple[tuple[int, Place], tuple[Resource, ...], bool], tuple[_Seen, bool]] = {}

        def enter(request: _Request) -> _Seen | None:
            schema, _, place, judge, scope = request
            if schema is False:
                judge.fault(place, "is not allowed")
            if isinstance(schema, bool):
                return _Seen()
            key = (id(schema), place)
            if (found := known.get((key, scope, judge.silent))) is not None:
                seen, valid = found
                judge.count += not valid
                return seen
            # A reference that comes back to where it started, in the same place of the value, would do so for
            # ever; it adds nothing.
            if key in active:
                running[-1].outermost = min(running[-1].outermost, active[key])
                return _Seen()
            position = active[key] = len(running)
            running.append(
                _Running(self._evaluate(*request), key, scope, judge, judge.count, outermost=position)
            )
            return None

        answer = enter((self._reading.root, value, Place(), report, ()))
        while running:
            current = running[-1]
            try:
                answer = enter(current.steps.send(answer))
            except StopIteration as stop:
                running.pop()
                del active[current.key]
                answer = stop.value
                if current.outermost == len(running):
                    valid = not current.judge.silent or current.judge.count == current.count
                    known[current.key, current.scope, current.judge.silent] = (stop.value, valid)
                else:
                    # It took for granted what an evaluation still under way may deny.
                    running[-1].outermost = min(running[-1].outermost, current.outermost)

    def _evaluate(
        self, schema: _Schema, value: Any, place: Place, report: Report, scope: tuple[Resource, ...]
    ) -> _Evaluation:
        own = self._reading.owner(schema)
        if own not in scope:
            scope = (*scope, own)
        seen = _Seen()
        self._assert(schema, value, place, report)
        yield from self._in_place(schema, value, place, report, scope, seen)
        kind = kind_of(value)
        if kind is FrozenDict:
            yield from self._properties(schema, value, place, report, scope, seen)
        elif kind is FrozenList:
            yield from self._items(schema, value, place, report, scope, seen)
        return seen

    def _assert(self, schema: _Schema, value: Any, place: Place, report: Report) -> None:
        """Adds what the keywords say that look at the value as a whole."""
        if "type" in schema:
            names = schema["type"] if isinstance(schema["type"], FrozenList) else (schema["type"],)
            if not any(_TYPES[name][1](value) for name in names):
                report.must_be(place, " or ".join(_TYPES[name][0] for name in names))
        if "enum" in schema and to_canonical_text(value) not in self._options_of(schema):
            report.must_be_among(place, schema["enum"])
        if "const" in schema and not json_equal(value, schema["const"]):
            report.must_equal(place, schema["const"])
        kind = kind_of(value)
        if kind is FrozenDict:
            _assert_object(schema, value, place, report)
        elif kind is FrozenList:
            _assert_array(schema, value, place, report)
        elif kind is str or ((kind is int or kind is float) and not _is_huge(value)):
            self._assert_leaf(schema, value, place, report)
        elif kind is int:
            _assert_huge(schema, value, place, report)

    def _options_of(self, schema: _Schema) -> frozenset[str]:
        found = self._options.get(id(schema))
        if found is None:
            found = self._options[id(schema)] = frozenset(map(to_canonical_text, schema["enum"]))
        return found

    def _assert_leaf(self, schema: _Schema, value: Any, place: Place, report: Report) -> None:
        mask = "the string" if type(value) is str and len(value) > _QUOTED else None
        leaf = self._leaf(schema, mask)
        if leaf is not None:
            for error in leaf.iter_errors(value):
                report.sentence(place, error.message)

    def _leaf(self, schema: _Schema, mask: str | None) -> Any:
        """Returns what is compiled of the keywords about a single string or number, None without any."""
        key = (id(schema), mask)
        if key not in self._leaves:
            leaf = {keyword: schema[keyword] for keyword in _LEAF if keyword in schema}
            self._leaves[key] = _compiled({"$schema": self._draft.uri, **leaf}, mask) if leaf else None
        return self._leaves[key]

    def _pattern(self, pattern: str) -> Any:
        if pattern not in self._patterns:
            self._patterns[pattern] = _compiled({"$schema": self._draft.uri, "pattern": pattern})
        return self._patterns[pattern]

    def _in_place(
        self,
        schema: _Schema,
        value: Any,
        place: Place,
        report: Report,
        scope: tuple[Resource, ...],
        seen: _Seen,
    ) -> Generator[_Request, Any, None]:
        """Applies the schemas that look at the same value."""
        for part in self._conjuncts(schema, value, scope):
            seen.add((yield part, value, place, report, scope))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                matched = 0
                for part in schema[keyword]:
                    branch = report.branch()
                    seen_there = yield part, value, place, branch, scope
                    if not branch.count:
                        matched += 1
                        seen.add(seen_there)
                if keyword == "anyOf" and not matched:
                    report.no_branch(place)
                if keyword == "oneOf" and matched != 1:
                    report.not_one_branch(place, matched)
        if "not" in schema:
            branch = report.branch()
            yield schema["not"], value, place, branch, scope
            if not branch.count:
                report.fault(place, "is valid under a schema that is excluded with not")
        if "if" in schema:
            branch = report.branch()
            seen_there = yield schema["if"], value, place, branch, scope
            if not branch.count:
                seen.add(seen_there)
            consequence = "else" if branch.count else "then"
            if consequence in schema:
                seen.add((yield schema[consequence], value, place, report, scope))

    def _conjuncts(self, schema: _Schema, value: Any, scope: tuple[Resource, ...]) -> Iterable[_Schema]:
        """Yields the schemas of which all must hold."""
        if "$ref" in schema:
            yield self._reading.target(schema, "$ref")
        if "$dynamicRef" in schema:
            yield self._dynamic_target(schema, scope)
        if "$recursiveRef" in schema:
            yield self._recursive_target(schema, scope)
        yield from schema.get("allOf", ())
        if type(value) is FrozenDict:
            for keyword in ("dependentSchemas", "dependencies"):
                for key, dependent in schema.get(keyword, {}).items():
                    if key in value and not isinstance(dependent, FrozenList):
                        yield dependent

    def _dynamic_target(self, schema: _Schema, scope: tuple[Resource, ...]) -> _Schema:
        target = self._reading.target(schema, "$dynamicRef")
        name = schema["$dynamicRef"].partition("#")[2]
        if isinstance(target, FrozenDict) and target.get("$dynamicAnchor") == name:
            for resource in scope:
                if name in resource.dynamic_anchors:
                    return resource.dynamic_anchors[name]
        return target

    def _recursive_target(self, schema: _Schema, scope: tuple[Resource, ...]) -> _Schema:
        # It is always "#": the root of the schema's own resource, which is in the scope.
        target = self._reading.target(schema, "$recursiveRef")
        if isinstance(target, FrozenDict) and target.get("$recursiveAnchor") is True:
            return next(resource.root for resource in scope if resource.root.get("$recursiveAnchor") is True)
        return target

    def _properties(
        self,
        schema: _Schema,
        value: FrozenDict,
        place: Place,
        report: Report,
        scope: tuple[Resource, ...],
        seen: _Seen,
    ) -> Generator[_Request, Any, None]:
        """Applies the schemas that look at the properties of an object."""
        declared: set[str] = set()
        for key, part in schema.get("properties", {}).items():
            if key in value:
                declared.add(key)
                yield part, value[key], place.member(key), report, scope
        for pattern, part in schema.get("patternProperties", {}).items():
            matches = self._pattern(pattern)
            for key, each in value.items():
                if matches.is_valid(key):
                    declared.add(key)
                    yield part, each, place.member(key), report, scope
        seen.keys |= declared
        if "additionalProperties" in schema:
            for key, each in value.items():
                if key not in declared:
                    if schema["additionalProperties"] is False:
                        report.undeclared(place, key)
                    else:
                        part = schema["additionalProperties"]
                        yield part, each, place.member(key), report, scope
            seen.keys |= value.keys()
        if "propertyNames" in schema:
            for key in value:
                branch = report.branch()
                yield schema["propertyNames"], key, Place(), branch, scope
                if branch.count:
                    report.refused_name(place, key)
        if "unevaluatedProperties" in schema:
            for key, each in value.items():
                if key not in seen.keys:
                    if schema["unevaluatedProperties"] is False:
                        report.fault(place.member(key), "is not allowed by unevaluatedProperties")
                    else:
                        part = schema["unevaluatedProperties"]
                        yield part, each, place.member(key), report, scope
            seen.keys |= value.keys()

    def _items(
        self,
        schema: _Schema,
        value: FrozenList,
        place: Place,
        report: Report,
        scope: tuple[Resource, ...],
        seen: _Seen,
    ) -> Generator[_Request, Any, None]:
        """Applies the schemas that look at the items of an array."""
        items = schema.get("items")
        by_position, rest = schema.get("prefixItems", ()), items
        if isinstance(items, FrozenList):
            by_position, rest = items, schema.get("additionalItems")
        for index, each in enumerate(value):
            part = by_position[index] if index < len(by_position) else rest
            if part is not None:
                seen.items.add(index)
                yield part, each, place.member(index), report, scope
        if "contains" in schema:
            matched: set[int] = set()
            for index, each in enumerate(value):
                branch = report.branch()
                yield schema["contains"], each, place.member(index), branch, scope
                if not branch.count:
                    matched.add(index)
            # Draft 2019-09 does not say that what matches is evaluated; the compiled validator holds it so.
            seen.items |= matched
            least = 1 if self._draft is DRAFT_7 else schema.get("minContains", 1)
            if len(matched) < least:
                report.fault(place, f"has {len(matched)} items that match contains, and needs {least}")
            if len(matched) > schema.get("maxContains", len(matched)):
                most = schema["maxContains"]
                report.fault(place, f"has {len(matched)} items that match contains, and may have {most}")
        if "unevaluatedItems" in schema:
            for index, each in enumerate(value):
                if index not in seen.items:
                    if schema["unevaluatedItems"] is False:
                        report.fault(place.member(index), "is not allowed by unevaluatedItems")
                    else:
                        part = schema["unevaluatedItems"]
                        yield part, each, place.member(index), report, scope
            seen.items |= set(range(len(value)))


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


# The words of JS-15, and the test.
_TYPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: type(value) is str),
    "number": ("a finite JSON number", _is_number),
    "integer": ("an integer", _is_integer),
    "boolean": ("a boolean", lambda value: type(value) is bool),
    "null": ("null", lambda value: value is None),
    "object": ("an object", lambda value: type(value) is FrozenDict),
    "array": ("an array", lambda value: type(value) is FrozenList),
}

# Keywords about a single string or number.
_LEAF: Final = (
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "contentEncoding",
    "contentMediaType",
)


def _is_huge(value: Any) -> bool:
    return type(value) is int and not -_HUGE < value < _HUGE


def _assert_huge(schema: _Schema, value: int, place: Place, report: Report) -> None:
    if "multipleOf" in schema and Fraction(value) % Fraction(str(schema["multipleOf"])):
        report.sentence(place, f"the number is not a multiple of {schema['multipleOf']}")
    for keyword, (fails, words) in _LIMITS.items():
        if keyword in schema and fails(value, schema[keyword]):
            report.sentence(place, f"the number is {words} {to_json_text(schema[keyword])}")


_LIMITS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "maximum": (lambda value, limit: value > limit, "greater than the maximum of"),
    "exclusiveMaximum": (lambda value, limit: value >= limit, "greater than or equal to the maximum of"),
    "minimum": (lambda value, limit: value < limit, "less than the minimum of"),
    "exclusiveMinimum": (lambda value, limit: value <= limit, "less than or equal to the minimum of"),
}


def _assert_size(schema: _Schema, size: int, kind: str, what: str, place: Place, report: Report) -> None:
    least, most = schema.get(f"min{kind}", size), schema.get(f"max{kind}", size)
    if size < least:
        report.fault(place, f"has less than {least} {what}")
    if size > most:
        report.fault(place, f"has more than {most} {what}")


def _assert_object(schema: _Schema, value: FrozenDict, place: Place, report: Report) -> None:
    _assert_size(schema, len(value), "Properties", "properties", place, report)
    required: list[str] = list(schema.get("required", ()))
    for keyword in ("dependentRequired", "dependencies"):
        for key, names in schema.get(keyword, {}).items():
            if key in value and isinstance(names, FrozenList):
                required += [str(name) for name in names]
    for key in dict.fromkeys(required):
        if key not in value:
            report.missing(place, key)


def _assert_array(schema: _Schema, value: FrozenList, place: Place, report: Report) -> None:
    _assert_size(schema, len(value), "Items", "items", place, report)
    if schema.get("uniqueItems") is True:
        seen: set[str] = set()
        for each in value:
            text = to_canonical_text(each)
            if text in seen:
                report.fault(place, "has non-unique elements")
                return
            seen.add(text)
