"""Documents read from disk, and folders to write to: as they must be, or one line says what."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.files import check_writable, converted, decoded, read_document


@dataclass(frozen=True)
class Inner:
    sizes: tuple[int, ...]
    rate: float = 0.5

    def __post_init__(self):
        if self.rate < 0:
            raise ValueError(f"rate is {self.rate}; expected at least 0")


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    seed: int | None = None


WHOLE = {"name": "a", "inner": {"sizes": [1, 2], "rate": 1}, "seed": 7}


def test_a_document_is_read_as_the_dataclasses_it_is_made_of(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(WHOLE))
    found = read_document(tmp_path / "a.json", Outer)
    assert found == Outer("a", Inner((1, 2), 1.0), 7) and type(found.inner.rate) is float
    assert converted(WHOLE, Outer, "a") == found


@pytest.mark.parametrize(
    "change, field",
    [
        ({"name": 3}, "name"), ({"name": None}, "name"), ({"inner": []}, "inner"),
        ({"inner": {"sizes": [1, True]}}, "sizes"), ({"inner": {}}, "sizes"),
        ({"inner": {"sizes": [], "rate": -1}}, "rate is -1"), ({"seed": 1.5}, "seed"),
        ({"seed": "1"}, "seed"),
    ],
)
def test_a_field_of_another_type_is_named_with_its_file(change, field, tmp_path):
    (path := tmp_path / "a.json").write_text(json.dumps(WHOLE | change))
    with pytest.raises(ValueError) as caught:
        read_document(path, Outer)
    said = str(caught.value)
    assert said.startswith(f"{path} is damaged: ") and field in said and "\n" not in said


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"3", b"null", b"[" * 100_000, b"{", b'{"name": NaN}', b"\xff", b'"\xff"']
)
def test_what_is_no_such_document_is_refused_with_the_file(text, tmp_path):
    (path := tmp_path / "a.json").write_bytes(text)
    with pytest.raises(ValueError, match="a.json is damaged: "):
        read_document(path, Outer)


@given(st.binary())
def test_no_bytes_raise_anything_but_a_ValueError(data):
    for kind in (Outer, dict, list[int]):
        try:
            found = decoded(data, kind, "it")
        except ValueError as error:
            assert str(error).startswith(("it is damaged: ", "it has a field "))
        else:
            assert isinstance(found, (Outer, dict, list))


def test_a_key_that_no_field_has_is_named_by_its_path():
    for path in ("more", "inner.more"):
        document = json.loads(json.dumps(WHOLE))
        place = document["inner"] if "." in path else document
        place["more"] = 1
        with pytest.raises(ValueError, match=f"^it has a field '{path}' that"):
            converted(document, Outer, "it")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [1], "b": [1, "2"]}, "b[1] is '2', expected `int`"),
        ({"a": {}}, "a is {}, expected `array`"),
        ([], "the document is [], expected `object`"),
    ],
)
def test_what_is_wrong_in_a_nest_is_named_with_its_place_and_its_value(value, said):
    with pytest.raises(ValueError) as caught:
        converted(value, dict[str, list[int]], "it")
    assert str(caught.value) == f"it is damaged: {said}"
    with pytest.raises(ValueError) as caught:
        decoded(json.dumps(value).encode(), dict[str, list[int]], "it")
    assert str(caught.value) == f"it is damaged: {said}"


def test_a_missing_field_and_what_a_dataclass_itself_refuses_are_named_where_they_are():
    for inner, said in (
        ({"rate": 1}, "inner.sizes is missing"),
        ({"sizes": [], "rate": -1}, "inner: rate is -1.0; expected at least 0"),
    ):
        with pytest.raises(ValueError, match=f"^it is damaged: {said}$"):
            converted(WHOLE | {"inner": inner}, Outer, "it")


def test_a_folder_is_made_and_nothing_is_left_in_it(tmp_path):
    check_writable(tmp_path / "one" / "two")
    assert not list((tmp_path / "one" / "two").iterdir())


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "taken").write_text("kept")
    with pytest.raises(OSError, match="taken"):
        check_writable(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "kept"
