"""JSON without loss: the snapshot, the frozen containers, and JSON text, at every depth."""

import copy
import json
import math
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools._json import (
    FrozenDict,
    FrozenList,
    JsonValue,
    NotLossless,
    TooDeep,
    freeze_arguments,
    freeze_value,
    height_of,
    is_frozen,
    json_equal,
    repair_text,
    thaw,
    to_json_text,
)

DEPTH = 512
DEEP = 100_000

scalars: st.SearchStrategy[JsonValue] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
documents: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
# Text as Python has it: with surrogates, alone and in pairs.
any_text = st.text(st.characters() | st.sampled_from("\ud83d\ude00\udfff\ud800"))


def freeze(value: object) -> Any:
    return freeze_arguments(value, depth=DEPTH)


def nested(levels: int, *, objects: bool = False) -> Any:
    value: Any = 7
    for level in range(levels):
        value = {"k": value} if objects and level % 2 else [value]
    return value


def nested_around(levels: int, innermost: object) -> object:
    value = innermost
    for _ in range(levels):
        value = [value]
    return value


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def same_json(a: Any, b: Any) -> bool:
    """Compare by value, type and order of keys, as nothing in the module under test does."""
    if is_object(a):
        return is_object(b) and list(a) == list(b) and all(same_json(a[key], b[key]) for key in a)
    if is_array(a):
        return is_array(b) and len(a) == len(b) and all(map(same_json, a, b))
    return type(a) is type(b) and (a == b) and (a != 0 or str(a) == str(b))


class Trap:
    """Fails the test as soon as any code of it runs."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("was compared")

    def __hash__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        raise AssertionError("was iterated")

    def __len__(self) -> int:
        raise AssertionError("was measured")

    def __bool__(self) -> bool:
        raise AssertionError("was tested")

    def __str__(self) -> str:
        raise AssertionError("was printed")

    __repr__ = __str__


class TrapMeta(type):
    def __eq__(cls, other: object) -> bool:
        raise AssertionError("the class was compared")

    def __hash__(cls) -> int:
        raise AssertionError("the class was hashed")

    def __instancecheck__(cls, instance: object) -> bool:
        raise AssertionError("an instance check was made")


class TrapOfMeta(metaclass=TrapMeta):
    pass


class TrapDict(dict[str, object]):
    def items(self) -> Any:
        raise AssertionError("was iterated")

    __iter__ = keys = values = __len__ = items


class TrapKey(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("the key was compared")

    def __hash__(self) -> int:
        return 1


class Disguised:
    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return dict


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Plain(Enum):
    A = "a"


NOT_JSON: list[object] = [
    (1,),
    {1},
    frozenset({1}),
    b"x",
    bytearray(b"x"),
    math.nan,
    math.inf,
    -math.inf,
    Decimal(1),
    1j,
    Colour.RED,
    Number.ONE,
    Plain.A,
    OrderedDict(a=1),
    object(),
    int,
    TrapDict(),
    Disguised(),
    range(3),
    (each for each in "endless"),
]
PLACES: list[Callable[[Any], object]] = [
    lambda value: value,
    lambda value: [value],
    lambda value: {"a": {"b": [0, value]}},
]
SHAPES: list[Callable[[object], object]] = [
    lambda value: [value, value],
    lambda value: nested_around(60, value),
]
TEXT_PLACES: list[Callable[[str], object]] = [
    lambda text: text,
    lambda text: [text],
    lambda text: {text: 1},
]
OBJECT_CHANGES: list[Callable[[Any], object]] = [
    lambda d: d.__setitem__("a", 2),
    lambda d: d.__delitem__("a"),
    lambda d: d.clear(),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.setdefault("b", 1),
    lambda d: d.update(b=1),
    lambda d: d.__ior__({"b": 1}),
    lambda d: setattr(d, "_height", 9),
    lambda d: delattr(d, "_height"),
    lambda d: setattr(d, "__class__", dict),
    lambda d: setattr(d, "new", 1),
]
ARRAY_CHANGES: list[Callable[[Any], object]] = [
    lambda x: x.__setitem__(0, 2),
    lambda x: x.__setitem__(slice(None), ARRAY_CHANGES),
    lambda x: x.__delitem__(0),
    lambda x: x.append(1),
    lambda x: x.extend([1]),
    lambda x: x.insert(0, 1),
    lambda x: x.pop(),
    lambda x: x.remove(2),
    lambda x: x.clear(),
    lambda x: x.sort(),
    lambda x: x.reverse(),
    lambda x: x.__iadd__([1]),
    lambda x: x.__imul__(2),
    lambda x: setattr(x, "_height", 9),
    lambda x: setattr(x, "__class__", list),
]


@pytest.mark.rule("MA-2")
def test_a_snapshot_is_detached_and_leaves_the_original_alone() -> None:
    original = {"a": [1, {"b": 2}]}

    frozen = freeze(original)
    original["a"].append(3)

    assert frozen == {"a": [1, {"b": 2}]}
    assert type(original) is dict
    assert type(original["a"]) is list


@pytest.mark.rule("MA-3", "MA-4")
@given(documents)
def test_everything_that_json_can_say_is_kept_as_it_is(value: JsonValue) -> None:
    frozen = freeze(value)

    assert same_json(frozen, value)
    assert same_json(freeze_value(value, depth=DEPTH), value)


@pytest.mark.rule("MA-4")
def test_numbers_that_python_calls_equal_stay_apart() -> None:
    frozen = freeze([1, 1.0, True, 0, -0.0, False, 10**5000])

    assert [type(each) for each in frozen] == [int, float, bool, int, float, bool, int]
    assert math.copysign(1, frozen[4]) == -1
    assert frozen[6] == 10**5000


@pytest.mark.rule("MA-4")
def test_the_order_of_keys_is_kept() -> None:
    assert list(freeze({"b": 1, "a": 2, "ü": 3, "\ud83d\ude00": 4})) == ["b", "a", "ü", "😀"]


@pytest.mark.rule("MA-3")
@pytest.mark.parametrize(
    "value",
    NOT_JSON,
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("place", PLACES)
def test_what_json_would_lose_is_refused_at_any_place(
    value: object, place: Callable[[object], object]
) -> None:
    for freezing in (freeze_arguments, freeze_value):
        with pytest.raises(NotLossless):
            freezing(place(value), depth=DEPTH)


@pytest.mark.rule("MA-3")
@pytest.mark.parametrize("key", [1, None, True, 1.0, b"a", Colour.RED, ("a",), TrapKey("a")], ids=repr)
def test_a_key_that_is_not_exactly_a_string_is_refused(key: object) -> None:
    with pytest.raises(NotLossless, match="key"):
        freeze({"a": 1, key: 2})


@pytest.mark.rule("MA-3")
@pytest.mark.parametrize("trap", [Trap, TrapOfMeta, TrapDict])
def test_no_code_of_the_arguments_runs(trap: Callable[[], object]) -> None:
    for place in (trap(), [trap()], {"a": trap()}):
        with pytest.raises(NotLossless):
            freeze(place)


@pytest.mark.rule("MA-3")
def test_a_refused_dict_key_is_never_hashed_again() -> None:
    class Key:
        armed = False

        def __hash__(self) -> int:
            assert not Key.armed
            return hash("a")

        def __eq__(self, other: object) -> bool:
            assert not Key.armed
            return False

    arguments = {"a": 1, Key(): 2}
    Key.armed = True

    with pytest.raises(NotLossless):
        freeze(arguments)


@pytest.mark.rule("MA-5")
def test_a_surrogate_pair_in_arguments_becomes_its_character() -> None:
    frozen = freeze({"\ud83d\ude00": ["\ud83d\ude00", "é"]})

    assert frozen == {"😀": ["😀", "é"]}
    assert freeze("\ud83d\ude00") == "😀"


@pytest.mark.rule("MA-5")
@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ude00\ud83d"])
@pytest.mark.parametrize("place", TEXT_PLACES)
def test_a_lone_surrogate_in_arguments_is_refused(text: str, place: Callable[[str], object]) -> None:
    with pytest.raises(NotLossless, match="surrogate"):
        freeze(place(text))


@pytest.mark.rule("MA-5", "MA-11")
@pytest.mark.parametrize("keys", [("😀", "\ud83d\ude00"), ("\ud83d\ude00", "😀")])
def test_keys_that_collide_when_joined_are_refused(keys: tuple[str, str]) -> None:
    for freezing in (freeze_arguments, freeze_value):
        with pytest.raises(NotLossless, match="keys"):
            freezing({"x": dict.fromkeys(keys, 1)}, depth=DEPTH)


@pytest.mark.rule("MA-11")
def test_a_lone_surrogate_in_a_value_becomes_the_replacement_character() -> None:
    frozen = freeze_value({"\ud83d": ["a\udc00b", "\ud83d\ude00"]}, depth=DEPTH)

    assert frozen == {"\ufffd": ["a\ufffdb", "😀"]}
    with pytest.raises(NotLossless, match="keys"):
        freeze_value(dict.fromkeys(("\ud83d", "\ufffd"), 1), depth=DEPTH)


@pytest.mark.rule("BD-4", "MA-11")
@given(any_text)
def test_repaired_text_is_the_text_read_as_utf_16(text: str) -> None:
    repaired: list[str] = []
    rest = list(text)
    while rest:
        first = rest.pop(0)
        if "\ud800" <= first <= "\udbff" and rest and "\udc00" <= rest[0] <= "\udfff":
            repaired.append(chr(0x10000 + (ord(first) - 0xD800) * 0x400 + ord(rest.pop(0)) - 0xDC00))
        else:
            repaired.append("\ufffd" if "\ud800" <= first <= "\udfff" else first)

    assert repair_text(text) == "".join(repaired)
    assert repair_text(repair_text(text)) == repair_text(text)


@pytest.mark.rule("MA-6")
@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("levels", [1, 2, 47, 48, 49, 512])
def test_the_outermost_container_counts_one(levels: int, objects: bool) -> None:
    value = nested(levels, objects=objects)

    assert height_of(freeze_arguments(value, depth=levels)) == levels
    with pytest.raises(TooDeep) as caught:
        freeze_arguments(value, depth=levels - 1)
    assert caught.value.levels == levels - 1
    assert pickle.loads(pickle.dumps(caught.value)).levels == levels - 1


@pytest.mark.rule("MA-6")
def test_a_scalar_has_no_depth() -> None:
    assert freeze_arguments(1, depth=0) == 1
    with pytest.raises(TooDeep):
        freeze_arguments([], depth=0)


@pytest.mark.rule("MA-6")
def test_nesting_beyond_any_stack_is_refused_in_an_orderly_way() -> None:
    with pytest.raises(TooDeep):
        freeze(nested(DEEP))


@pytest.mark.rule("MA-6")
def test_a_stack_that_is_nearly_used_up_changes_nothing() -> None:
    value = nested(40, objects=True)

    def dig(levels: int) -> JsonValue:
        return dig(levels - 1) if levels else freeze(value)

    def stack() -> int:
        frame, size = sys._getframe(), 0  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            frame, size = frame.f_back, size + 1
        return size

    # Room for a few frames, and far from enough for one or two per level.
    assert dig(sys.getrecursionlimit() - stack() - 20) == value


@pytest.mark.rule("MA-6")
def test_cycles_are_refused() -> None:
    short: list[object] = []
    short.append(short)
    long: dict[str, object] = {}
    long["a"] = [*nested(200), long]
    wide: list[object] = []
    wide.extend([wide] * 100)
    for value in (short, long, wide, {"a": short}):
        with pytest.raises(NotLossless):
            freeze(value)
        with pytest.raises(NotLossless):
            freeze_arguments(value, depth=10**9)


@pytest.mark.rule("MA-6")
@pytest.mark.parametrize("depth", [10, 200])
def test_a_shared_container_is_copied_once(depth: int) -> None:
    value: list[Any] = [1]
    for _ in range(depth):
        value = [value, value]

    frozen = freeze(value)

    assert frozen[0] is frozen[1]
    assert height_of(frozen) == depth + 1
    again = freeze(value)
    assert frozen is not again
    assert frozen == again
    assert hash(frozen) == hash(again)
    assert json_equal(frozen, again)
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    plain: Any = thaw(frozen)
    assert plain[0] is plain[1]


@pytest.mark.rule("MA-3", "MA-5", "MA-11")
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_shared_or_deep_is_held_to_the_same_rules(shape: Callable[[object], object]) -> None:
    refused: list[object] = [
        {1: 2},
        {"a": 1, TrapKey("a"): 2},
        dict.fromkeys(("😀", "\ud83d\ude00"), 1),
        {"\ud83d": 1},
        [math.nan],
        [(1,)],
        ["\udc00"],
        {"a": Trap()},
    ]
    for value in refused:
        with pytest.raises(NotLossless):
            freeze(shape(value))
    kept: Any = {"😀": ["é", 1.5, None], "": {}}
    assert freeze(shape({"\ud83d\ude00": ["é", 1.5, None], "": {}})) == shape(kept)
    assert freeze_value(shape({"\ud83d": "\udc00"}), depth=DEPTH) == shape({"\ufffd": "\ufffd"})


@pytest.mark.rule("MA-7")
@pytest.mark.parametrize("value", [{"a": [1]}, [[1], {}], nested(100)])
def test_frozen_json_that_is_handed_back_is_shared(value: object) -> None:
    frozen = freeze(value)

    assert freeze(frozen) is frozen
    assert freeze({"x": frozen})["x"] is frozen
    assert freeze([frozen, 1])[0] is frozen
    assert freeze_value([frozen], depth=DEPTH)[0] is frozen  # type: ignore[index]


@pytest.mark.rule("MA-6", "MA-7")
def test_the_depth_of_what_is_shared_counts() -> None:
    frozen = freeze(nested(500))

    assert height_of(freeze([[frozen]])) == 502
    with pytest.raises(TooDeep):
        freeze([[[[[[[[[[[[[frozen]]]]]]]]]]]]])
    with pytest.raises(TooDeep):
        freeze_arguments(frozen, depth=499)


@pytest.mark.rule("MA-7")
@given(documents, documents)
def test_frozen_containers_equal_what_they_came_from(a: JsonValue, b: JsonValue) -> None:
    frozen_a, frozen_b = freeze(a), freeze(b)

    assert frozen_a == a
    assert a == frozen_a
    assert (frozen_a != a) is False
    assert (frozen_a == frozen_b) is (a == b)
    assert (frozen_a == b) is (a == b)
    assert (frozen_a != b) is (a != b)
    if a == b:
        assert hash(frozen_a) == hash(frozen_b)


@pytest.mark.rule("MA-7")
def test_equality_with_other_kinds_of_objects() -> None:
    class Everything:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

    frozen = freeze({"a": [1]})

    assert frozen == OrderedDict(a=[1])
    assert OrderedDict(a=[1]) == frozen
    assert frozen == {"a": [True]}
    assert frozen != {"b": [1]}
    assert frozen != {"a": [1], "b": 1}
    assert frozen != [1]
    assert frozen["a"] != {"a": 1}
    assert frozen["a"] != [1, 2]
    assert frozen["a"] != [2]
    assert frozen != 1
    assert frozen["a"] != 1
    assert frozen == {"a": Everything()}
    assert frozen == Everything()


@pytest.mark.rule("MA-7")
def test_hashes_tell_contents_apart_and_ignore_the_order_of_keys() -> None:
    assert hash(freeze({"a": 1, "b": [2]})) == hash(freeze({"b": [2], "a": 1}))
    assert hash(freeze([])) != hash(freeze([0]))
    assert hash(freeze({"a": 1})) != hash(freeze({"a": 2}))
    assert {freeze({"a": [1]}): 1}[freeze({"a": [1]})] == 1


@pytest.mark.slow
@pytest.mark.rule("MA-7")
def test_every_operation_works_at_every_admitted_depth() -> None:
    value = nested(DEEP, objects=True)

    frozen = freeze_arguments(value, depth=DEEP)
    again = freeze_value(value, depth=DEEP)

    assert frozen is not again
    assert frozen == again
    assert frozen == value
    assert (frozen != again) is False
    assert hash(frozen) == hash(again)
    assert json_equal(frozen, again)
    assert thaw(frozen) == frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert copy.deepcopy(frozen) is frozen
    text = to_json_text(frozen)
    assert text.count("[") + text.count("{") == DEEP
    assert repr(frozen).count("'k'") == DEEP // 2
    assert height_of(frozen) == DEEP


@pytest.mark.rule("MA-7")
@given(documents)
def test_thawing_gives_plain_and_detached_json(value: JsonValue) -> None:
    frozen = freeze(value)

    plain: Any = thaw(frozen)

    assert same_json(plain, value)
    assert json.loads(json.dumps(plain)) == plain
    pending = [plain]
    while pending:
        each = pending.pop()
        assert type(each) in (dict, list, str, int, float, bool, type(None))
        if is_object(each):
            pending.extend(each.values())
            each.clear()
        elif is_array(each):
            pending.extend(each)
            each.clear()
    assert same_json(frozen, value)


@pytest.mark.rule("MA-15")
@pytest.mark.parametrize(
    "change",
    OBJECT_CHANGES,
)
def test_a_frozen_object_refuses_every_change(change: Callable[[Any], object]) -> None:
    frozen = freeze({"a": 1})

    with pytest.raises(TypeError, match="frozen"):
        change(frozen)
    assert frozen == {"a": 1}
    assert height_of(frozen) == 1


@pytest.mark.rule("MA-15")
@pytest.mark.parametrize(
    "change",
    ARRAY_CHANGES,
)
def test_a_frozen_array_refuses_every_change(change: Callable[[Any], object]) -> None:
    frozen = freeze([2, 1])

    with pytest.raises(TypeError, match="frozen"):
        change(frozen)
    assert frozen == [2, 1]


@pytest.mark.rule("MA-15")
def test_initializing_again_changes_nothing() -> None:
    frozen_dict, frozen_list = freeze({"a": 1}), freeze([1])

    frozen_dict.__init__({"b": 2})
    frozen_list.__init__([2])

    assert frozen_dict == {"a": 1}
    assert frozen_list == [1]


@pytest.mark.rule("MA-15")
def test_no_method_of_the_builtin_types_that_changes_is_left_open() -> None:
    reading = {
        *("__class__", "__class_getitem__", "__contains__", "__dir__", "__doc__", "__eq__", "__format__"),
        *("__ge__", "__getattribute__", "__getitem__", "__getstate__", "__gt__", "__hash__", "__init__"),
        *("__init_subclass__", "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__new__", "__or__"),
        *("__reduce__", "__reduce_ex__", "__repr__", "__reversed__", "__ror__", "__sizeof__", "__str__"),
        *("__subclasshook__", "__add__", "__mul__", "__rmul__", "copy", "count", "index", "fromkeys", "get"),
        *("items", "keys", "values"),
    }
    for frozen, builtin in ((FrozenDict, dict), (FrozenList, list)):
        for name in set(dir(builtin)) - reading:
            assert getattr(frozen, name) is not getattr(builtin, name), name


def test_reading_methods_give_plain_copies() -> None:
    frozen_dict, frozen_list = freeze({"a": 1}), freeze([1])

    assert type(frozen_dict.copy()) is dict
    assert type(frozen_dict | {"b": 2}) is dict
    assert type(frozen_list.copy()) is list
    assert type(frozen_list.__add__([2])) is list
    assert type(frozen_list[:]) is list


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [{"a": [1, {"b": None}], "c": {}}, [], {}, [[], [1.5, "x"]]])
def test_pickling_and_copying(value: object, protocol: int) -> None:
    frozen = freeze(value)

    restored = pickle.loads(pickle.dumps(frozen, protocol))

    assert same_json(restored, value)
    assert is_frozen(restored)
    assert height_of(restored) == height_of(frozen)
    assert all(is_frozen(each) for each in restored if isinstance(each, dict | list))
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert frozen.__reduce__()[0](*frozen.__reduce__()[1]) == value


@pytest.mark.rule("MA-7")
def test_the_constructors_take_a_snapshot_and_refuse_what_is_not_json() -> None:
    source = {"a": [1]}

    frozen = FrozenDict(source)
    source["a"].append(2)

    assert frozen == {"a": [1]}
    assert FrozenDict() == {}
    assert FrozenDict([("a", 1)]) == {"a": 1}
    assert FrozenList(range(3)) == [0, 1, 2]
    assert FrozenList() == []
    for wrong in (lambda: FrozenDict({"a": (1,)}), lambda: FrozenList([{1}])):
        with pytest.raises(NotLossless):
            wrong()


@pytest.mark.rule("MA-7")
@given(documents)
def test_json_and_printing_see_ordinary_containers(value: JsonValue) -> None:
    frozen = freeze(value)

    assert json.dumps(frozen) == json.dumps(value)
    assert repr(frozen) == repr(value)
    assert str(frozen) == str(value)
    assert f"{frozen}" == f"{value}"


@pytest.mark.rule("MA-13")
@given(documents)
def test_json_text_is_compact_and_reads_back_as_the_same(value: JsonValue) -> None:
    text = to_json_text(freeze(value))

    assert same_json(json.loads(text), value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.rule("MA-13")
@given(documents)
def test_the_iterative_writer_agrees_with_the_standard_one(value: JsonValue) -> None:
    deep = [value]
    for _ in range(60):
        deep = [deep]

    assert to_json_text(freeze(deep)) == json.dumps(deep, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.rule("MA-13")
def test_integers_of_any_size_are_written_out() -> None:
    number, digits = 10**50_000 + 7, "1" + "0" * 49_999 + "7"

    assert to_json_text(freeze({"n": [number, -number]})) == f'{{"n":[{digits},-{digits}]}}'
    assert to_json_text(number) == digits
    assert repr(freeze([number])) == f"[{digits}]"


@pytest.mark.rule("MA-13")
def test_non_ascii_text_is_kept_and_control_characters_are_escaped() -> None:
    assert to_json_text(freeze(["é😀", 'a"\n\x00\u2028'])) == '["é😀","a\\"\\n\\u0000\u2028"]'


@pytest.mark.rule("JS-3")
@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (1, True, False),
        (True, 1.0, False),
        (False, 0, False),
        (False, None, False),
        (True, True, True),
        ("1", 1, False),
        ([1], [1.0], True),
        ([1], [True], False),
        ({"a": {"b": 1}}, {"a": {"b": True}}, False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        ({}, [], False),
        ([], [1], False),
        ({}, {"a": 1}, False),
        (2**53 + 1, float(2**53), False),
    ],
)
def test_equality_by_json_type(a: JsonValue, b: JsonValue, equal: bool) -> None:
    assert json_equal(a, b) is equal
    assert json_equal(b, a) is equal
    assert json_equal(freeze(a), b) is equal


@pytest.mark.parametrize("levels", [1, 100])
def test_a_container_that_changes_while_it_is_copied_is_refused(levels: int) -> None:
    changing: dict[str, Any] = {str(number): [number] for number in range(5000)}
    value = nested(levels)
    value.append(changing)

    # What another thread might do, and only another thread: change the container in the middle of the pass.
    def meddle(*_: object) -> None:
        changing[f"x{len(changing)}"] = 1

    sys.setprofile(meddle)
    try:
        with pytest.raises(NotLossless, match="changed"):
            freeze(value)
    finally:
        sys.setprofile(None)
    assert height_of(freeze(value)) == max(levels, 3)


@given(st.dictionaries(any_text, any_text))
def test_what_is_frozen_can_always_be_encoded(value: Mapping[str, str]) -> None:
    try:
        frozen = freeze_value(value, depth=DEPTH)
    except NotLossless:
        return

    assert to_json_text(frozen).encode()
