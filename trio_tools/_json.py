"""JSON that is taken without loss, and the frozen containers it is kept in.

A snapshot is made in one pass that checks, copies and freezes. Types are told apart with ``type(x) is ...``
only: ``isinstance`` asks ``__class__`` and membership in a set or tuple asks the metaclass, and both would
run code of the object under check (`MA-3`).

Every operation on the frozen containers is iterative or falls back to an iterative form, because the depth
of admitted JSON is a setting and Python's stack is not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, NoReturn, SupportsIndex, TypeAlias, TypeGuard, Union, cast, final

from ._text import join_surrogates, repair_text, to_json_text, to_python_text

__all__ = [
    "FrozenDict",
    "FrozenList",
    "JsonSchema",
    "JsonValue",
    "NotLossless",
    "TooDeep",
    "fill_dict",
    "fill_list",
    "freeze_arguments",
    "freeze_tree",
    "freeze_value",
    "height_of",
    "is_frozen",
    "json_equal",
    "kind_of",
    "new_dict",
    "new_list",
    "repair_text",
    "thaw",
    "to_json_text",
]

JsonValue: TypeAlias = Union[None, bool, int, float, str, list["JsonValue"], dict[str, "JsonValue"]]  # noqa: UP007, RUF036
"""Any JSON value; arrays and objects that the library hands out are `FrozenList` and `FrozenDict`.

It is a `typing.Union` object at run time, not a string, so that a signature that uses it can be recognised.
"""

JsonSchema: TypeAlias = Mapping[str, JsonValue]
"""A JSON Schema as a frozen JSON object; a boolean schema is spelled ``{}`` or ``{"not": {}}``."""

_NOT_JSON = "not a JSON value"
_NOT_FINITE = "NaN or an infinity"
_NOT_A_KEY = "an object key that is not a string"
_COLLISION = "two keys that become equal"
_CYCLE = "a container that contains itself"
_SURROGATE = "a lone surrogate"
_CHANGED = "a container that changed while it was copied"

kind_of: Callable[[object], object] = type
"""`type` by a name that a type checker does not narrow by: narrowed, `Any` would become partially unknown."""

# Up to this many levels recursion is used, since it is the faster form; deeper values take the iterative one.
_SHALLOW = 48


class NotLossless(ValueError):  # noqa: N818  (a fact about a value; whose error it is, the caller decides)
    """The value is not JSON, or JSON would lose part of it.

    The text is a short reason and quotes nothing of the value.
    """


class TooDeep(NotLossless):
    """The containers of the value nest deeper than the limit.

    `levels` is the limit that was exceeded; the outermost container counts one (`MA-6`).
    """

    def __init__(self, levels: int) -> None:
        super().__init__(f"nested deeper than {levels} levels")
        self.levels = levels

    def __reduce__(self) -> tuple[type["TooDeep"], tuple[int]]:
        return TooDeep, (self.levels,)


class _NotATreeError(Exception):
    """The recursive form gives up, and one that needs no stack takes over."""


@final
class FrozenDict(dict[str, JsonValue]):
    """A JSON object that cannot be changed.

    It is a `dict` for `json`, for validators and for ``==``; each method that would change it raises
    `TypeError`. The `copy` module gives the object itself, its own ``copy()`` a plain shallow `dict`, `thaw`
    a plain deep copy. Comparing, hashing, pickling and ``repr`` work at any depth.

    Calling the class takes a snapshot of a mapping of lossless JSON, or of key-value pairs, and raises
    `NotLossless` for anything else.

    Keeps `MA-7` and `MA-15`.
    """

    __slots__ = ("_height",)
    _height: int

    def __new__(cls, source: Mapping[str, object] | Iterable[tuple[str, object]] = (), /) -> "FrozenDict":
        return cast("FrozenDict", freeze_arguments(dict(source), depth=_ANY_DEPTH))

    def __init__(self, source: Mapping[str, object] | Iterable[tuple[str, object]] = (), /) -> None:
        # `dict.__init__` would be a second `update`, open to everybody who holds the object.
        del source

    def __eq__(self, other: object) -> bool:
        return _equal(self, other, _python_equal) if _is_object(other) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not _equal(self, other, _python_equal) if _is_object(other) else NotImplemented

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  (a dict that cannot change may be hashed)
        return _hash(self)

    def __repr__(self) -> str:
        return to_python_text(self)

    def __copy__(self) -> "FrozenDict":
        return self

    def __deepcopy__(self, memo: object) -> "FrozenDict":
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _from_rows, (_to_rows(self),)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _from_rows, (_to_rows(self),)


@final
class FrozenList(list[JsonValue]):
    """A JSON array that cannot be changed; what `FrozenDict` says holds for it as well.

    Keeps `MA-7` and `MA-15`.
    """

    __slots__ = ("_height",)
    _height: int

    def __new__(cls, source: Iterable[object] = (), /) -> "FrozenList":
        return cast("FrozenList", freeze_arguments(list(source), depth=_ANY_DEPTH))

    def __init__(self, source: Iterable[object] = (), /) -> None:
        del source

    def __eq__(self, other: object) -> bool:
        return _equal(self, other, _python_equal) if _is_array(other) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not _equal(self, other, _python_equal) if _is_array(other) else NotImplemented

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  (a list that cannot change may be hashed)
        return _hash(self)

    def __repr__(self) -> str:
        return to_python_text(self)

    def __copy__(self) -> "FrozenList":
        return self

    def __deepcopy__(self, memo: object) -> "FrozenList":
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _from_rows, (_to_rows(self),)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _from_rows, (_to_rows(self),)


_Frozen: TypeAlias = FrozenDict | FrozenList

_ANY_DEPTH = 2**62

# What makes a frozen container, for those who have checked, or will check, what they put into it.
new_dict = cast("Callable[[type[FrozenDict]], FrozenDict]", dict.__new__)
new_list = cast("Callable[[type[FrozenList]], FrozenList]", list.__new__)
fill_dict = cast("Callable[[FrozenDict, dict[str, JsonValue]], None]", dict[str, JsonValue].update)
fill_list = cast("Callable[[FrozenList, list[JsonValue]], None]", list[JsonValue].extend)
# The slots' own setters: `__setattr__` is refused to everybody.
_set_dict_height = cast("Callable[[FrozenDict, int], None]", FrozenDict.__dict__["_height"].__set__)
_set_list_height = cast("Callable[[FrozenList, int], None]", FrozenList.__dict__["_height"].__set__)


def _is_object(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _refuse_changes(cls: type, names: Iterable[str]) -> None:
    # A loop, not a method each: they would have to repeat every overload of the builtin types to say no.
    for name in names:

        def refuse(self: object, *_: object, **__: object) -> NoReturn:
            raise TypeError(f"{type(self).__name__} is frozen; thaw() gives a copy that can be changed")

        refuse.__name__ = name
        refuse.__qualname__ = f"{cls.__name__}.{name}"
        setattr(cls, name, refuse)


_ALWAYS = ("__setitem__", "__delitem__", "__setattr__", "__delattr__", "clear", "pop")
_refuse_changes(FrozenDict, (*_ALWAYS, "__ior__", "popitem", "setdefault", "update"))
_refuse_changes(
    FrozenList, (*_ALWAYS, "__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse", "sort")
)


def _make_dict(plain: dict[str, JsonValue]) -> FrozenDict:
    frozen = new_dict(FrozenDict)
    fill_dict(frozen, plain)
    return frozen


def _make_list(plain: list[JsonValue]) -> FrozenList:
    frozen = new_list(FrozenList)
    fill_list(frozen, plain)
    return frozen


def is_frozen(value: object) -> TypeGuard[_Frozen]:
    """Tells whether the value is one of the library's own frozen containers; it runs no code of the value."""
    kind = kind_of(value)
    return kind is FrozenDict or kind is FrozenList


def height_of(value: JsonValue) -> int:
    """Returns how many containers nest in a frozen value, itself included; a scalar has none.

    It is measured when somebody asks, and then kept: most values are never asked.
    """
    if not is_frozen(value):
        return 0
    if not hasattr(value, "_height"):
        heights: dict[int, int] = {}
        for container in _innermost_first(value, _ANY_DEPTH):
            height = 1 + max((heights.get(id(child), 0) for child in _children(container)), default=0)
            heights[id(container)] = height
            if type(container) is FrozenDict:
                _set_dict_height(container, height)
            else:
                _set_list_height(container, height)
    return value._height  # pyright: ignore[reportPrivateUsage]


def freeze_arguments(obj: object, *, depth: int) -> JsonValue:
    """Takes a frozen, detached snapshot of arguments that are lossless JSON.

    Exactly `dict` with `str` keys, `list`, `str`, `int`, `float`, `bool` and `None` pass, and the frozen
    containers, which are shared and not copied. In strings and keys a surrogate pair becomes its character.
    No code of the object runs.

    Raises `NotLossless` for anything else (a lone surrogate, keys that collide, NaN, an infinity, a cycle)
    and `TooDeep` where more than `depth` containers nest. Keeps `MA-2` to `MA-7`.
    """
    return _freeze(obj, depth, _strict_text)


def freeze_value(obj: object, *, depth: int) -> JsonValue:
    """Takes a frozen, detached snapshot of a value that a body returned.

    It differs from `freeze_arguments` in one point: a lone surrogate becomes U+FFFD. Keys that this makes
    equal are `NotLossless`. Keeps `MA-11`.
    """
    return _freeze(obj, depth, repair_text)


def freeze_tree(obj: object, levels: int, seen: set[int]) -> JsonValue:
    """Freezes a value as `freeze_arguments` does if its containers are a tree, no deeper than `levels`.

    The ids of its containers are added to `seen`; one that is in there already, or anything else that is not
    plainly fine, raises an exception, of which nothing more is promised.
    """
    kind = kind_of(obj)
    if kind is dict:
        return _freeze_dict(obj, min(levels, _SHALLOW), seen, _strict_text)
    if kind is list:
        return _freeze_list(obj, min(levels, _SHALLOW), seen, _strict_text)
    leaf = _freeze_leaf(obj, _strict_text)
    if height_of(leaf) > levels:
        raise _NotATreeError
    return leaf


def _freeze(obj: object, depth: int, text: Callable[[str], str]) -> JsonValue:
    kind = kind_of(obj)
    if kind is not dict and kind is not list:
        frozen = _freeze_leaf(obj, text)
        if height_of(frozen) > depth:
            raise TooDeep(depth)
        return frozen
    try:
        try:
            freeze = _freeze_dict if kind is dict else _freeze_list
            return freeze(obj, min(depth, _SHALLOW), set(), text)
        except (_NotATreeError, RecursionError):
            return _freeze_graph(obj, depth, text)
    except RuntimeError:
        # Only another thread can have done it, but it must not look like a fault of the library.
        raise NotLossless(_CHANGED) from None


def _strict_text(text: str) -> str:
    try:
        return join_surrogates(text)
    except UnicodeDecodeError:
        raise NotLossless(_SURROGATE) from None


def _freeze_leaf(obj: Any, text: Callable[[str], str]) -> JsonValue:
    """Returns what is neither a plain `dict` nor a plain `list` in the form in which it is kept."""
    kind = kind_of(obj)
    if kind is FrozenDict or kind is FrozenList or obj is None or kind is int or kind is bool:
        return obj
    if kind is str:
        return text(obj)
    if kind is float:
        if isfinite(obj):
            return obj
        raise NotLossless(_NOT_FINITE)
    raise NotLossless(_NOT_JSON)


# These two are the hot path of every call. They say in line what `_freeze_leaf` says of the usual scalars,
# since a call costs more than what it would do, and they keep no record of copies: a container that is met
# again, or nests deeper than `levels`, sends the whole value to `_freeze_graph`.


def _freeze_dict(source: Any, levels: int, seen: set[int], text: Callable[[str], str]) -> FrozenDict:
    ident = id(source)
    if levels <= 0 or ident in seen:
        raise _NotATreeError
    seen.add(ident)
    plain: dict[str, JsonValue] = {}
    for key, value in source.items():
        if type(key) is not str:
            raise NotLossless(_NOT_A_KEY)
        if not key.isascii():
            key = text(key)
        kind = kind_of(value)
        if kind is str:
            plain[key] = value if value.isascii() else text(value)
        elif kind is int or kind is bool or value is None:
            plain[key] = value
        elif kind is dict:
            plain[key] = _freeze_dict(value, levels - 1, seen, text)
        elif kind is list:
            plain[key] = _freeze_list(value, levels - 1, seen, text)
        else:
            plain[key] = leaf = _freeze_leaf(value, text)
            if kind is not float and height_of(leaf) >= levels:
                raise _NotATreeError
    if len(plain) != len(source):
        raise NotLossless(_COLLISION)
    return _make_dict(plain)


def _freeze_list(source: Any, levels: int, seen: set[int], text: Callable[[str], str]) -> FrozenList:
    ident = id(source)
    if levels <= 0 or ident in seen:
        raise _NotATreeError
    seen.add(ident)
    plain: list[JsonValue] = []
    for value in source:
        kind = kind_of(value)
        if kind is str:
            plain.append(value if value.isascii() else text(value))
        elif kind is int or kind is bool or value is None:
            plain.append(value)
        elif kind is dict:
            plain.append(_freeze_dict(value, levels - 1, seen, text))
        elif kind is list:
            plain.append(_freeze_list(value, levels - 1, seen, text))
        else:
            leaf = _freeze_leaf(value, text)
            plain.append(leaf)
            if kind is not float and height_of(leaf) >= levels:
                raise _NotATreeError
    return _make_list(plain)


def _freeze_graph(root: Any, depth: int, text: Callable[[str], str]) -> JsonValue:
    """Freezes a value of any depth whose containers may be shared, of which each is copied once."""
    # Innermost containers first, so that the copies of its members are there when a container is copied.
    copies: dict[int, JsonValue] = {}

    def member(value: Any) -> JsonValue:
        kind = kind_of(value)
        return copies[id(value)] if kind is dict or kind is list else _freeze_leaf(value, text)

    for container in _innermost_first(root, depth):
        if kind_of(container) is list:
            copies[id(container)] = _make_list([member(value) for value in container])
            continue
        plain: dict[str, JsonValue] = {}
        for key, value in container.items():
            if type(key) is not str:
                raise NotLossless(_NOT_A_KEY)
            plain[text(key)] = member(value)
        if len(plain) != len(container):
            raise NotLossless(_COLLISION)
        copies[id(container)] = _make_dict(plain)
    frozen = copies[id(root)]
    # The walk ends at frozen containers and knows the longest way only of a tree.
    if height_of(frozen) > depth:
        raise TooDeep(depth)
    return frozen


def _children(container: Any) -> Iterator[Any]:
    kind = kind_of(container)
    return iter(container.values() if kind is dict or kind is FrozenDict else container)


def _innermost_first(root: Any, depth: int) -> list[Any]:
    """Lists each container once, after those in it: the frozen ones if the root is frozen, else the plain."""
    first, second = (FrozenDict, FrozenList) if is_frozen(root) else (dict, list)
    finished: list[Any] = []
    done = {id(root): False}
    path: list[tuple[Any, Iterator[Any]]] = [(root, _children(root))]
    while path:
        container, rest = path[-1]
        for child in rest:
            kind = kind_of(child)
            if kind is first or kind is second:
                state = done.get(id(child))
                if state is None:
                    if len(path) >= depth:
                        raise TooDeep(depth)
                    done[id(child)] = False
                    path.append((child, _children(child)))
                    break
                if not state:
                    raise NotLossless(_CYCLE)
        else:
            path.pop()
            done[id(container)] = True
            finished.append(container)
    return finished


def thaw(value: JsonValue) -> JsonValue:
    """Returns a detached copy of frozen JSON in plain `dict` and `list` objects; a scalar is itself.

    A container that occurs twice in the value is one object in the copy as well, as with `copy.deepcopy`. It
    works at any depth (`MA-7`).
    """
    if not is_frozen(value):
        return value
    memo: dict[int, Any] = {}
    try:
        return _thaw(value, _SHALLOW, memo)
    except (_NotATreeError, RecursionError):
        for container in _innermost_first(value, _ANY_DEPTH):
            _thaw(container, 1, memo)
        return memo[id(value)]


def _thaw(frozen: Any, levels: int, memo: dict[int, Any]) -> Any:
    ident = id(frozen)
    if ident in memo:
        return memo[ident]
    if levels <= 0:
        raise _NotATreeError
    # `copy` of a frozen container gives a plain one at C speed; what is left is to replace its containers.
    plain = frozen.copy()
    for key, value in frozen.items() if type(frozen) is FrozenDict else enumerate(frozen):
        kind = kind_of(value)
        if kind is FrozenDict or kind is FrozenList:
            plain[key] = _thaw(value, levels - 1, memo)
    memo[ident] = plain
    return plain


def json_equal(a: JsonValue, b: JsonValue) -> bool:
    """Tells whether two values are equal as JSON: ``true`` is not ``1``, while ``1.0`` is (`JS-3`)."""
    return _equal(a, b, _json_scalars_equal)


def _json_scalars_equal(a: object, b: object) -> bool:
    return (type(a) is bool) is (type(b) is bool) and a == b


def _python_equal(a: object, b: object) -> bool:
    return a is b or bool(a == b)


def _equal(a: Any, b: Any, scalars_equal: Callable[[object, object], bool]) -> bool:
    pairs: list[tuple[Any, Any]] = [(a, b)]
    # A pair that is known, or about to be compared, needs no second look: without this, a value that shares
    # its parts takes time exponential in its depth. The pairs stay alive in here, for the ids to stay theirs.
    seen: dict[tuple[int, int], tuple[Any, Any]] = {}
    while pairs:
        pair = left, right = pairs.pop()
        if _is_object(left) and _is_object(right):
            if left is right or (id(left), id(right)) in seen:
                continue
            seen[id(left), id(right)] = pair
            if len(left) != len(right):
                return False
            for key, value in left.items():
                if key not in right:
                    return False
                pairs.append((value, right[key]))
        elif _is_array(left) and _is_array(right):
            if left is right or (id(left), id(right)) in seen:
                continue
            seen[id(left), id(right)] = pair
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif not scalars_equal(left, right):
            return False
    return True


def _hash(root: _Frozen) -> int:
    hashes: dict[int, int] = {}
    for container in _innermost_first(root, _ANY_DEPTH):
        if type(container) is FrozenDict:
            own = hash(
                frozenset((key, hashes.get(id(value)) or hash(value)) for key, value in container.items())
            )
        else:
            own = hash(tuple(hashes.get(id(value)) or hash(value) for value in container))
        # Zero would read as unknown above, and the hash of the child would be computed from the start.
        hashes[id(container)] = own or 1
    return hashes[id(root)]


def _to_rows(root: _Frozen) -> list[Any]:
    # A flat table of all containers, innermost first, for pickle recurses too. A row is keys (None for an
    # array) and members; a member that is a container is the tuple of its row's number.
    rows: list[Any] = []
    numbers: dict[int, tuple[int]] = {}
    for container in _innermost_first(root, _ANY_DEPTH):
        keys = list(container) if type(container) is FrozenDict else None
        rows.append(
            (keys, [numbers[id(child)] if is_frozen(child) else child for child in _children(container)])
        )
        numbers[id(container)] = (len(rows) - 1,)
    return rows


def _from_rows(rows: list[Any]) -> _Frozen:
    made: list[_Frozen] = []
    keys: Any
    members: Any
    for keys, members in rows:
        values: list[Any] = [made[member[0]] if type(member) is tuple else member for member in members]
        made.append(_make_list(values) if keys is None else _make_dict(dict(zip(keys, values, strict=True))))
    return made[-1]
