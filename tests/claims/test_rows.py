import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from bench.claims.claim import Expected
from bench.claims.rows import CONDITION, CONDITION_FIELDS, IMPLEMENTATION, LARGEST, Row, SideRow, Text, said
from bench.spec import IMPLEMENTATION_FIELDS, WORKLOAD_FIELDS

AMOUNTS = st.floats(min_value=1e-6, max_value=LARGEST) | st.integers(min_value=1, max_value=10**18)


def expected(value: object) -> Expected | None:
    row = {"id": "a", "kind": "range", "statement": {"en": "a", "fr": "b", "ro": "c"}, "expected": value}
    return Row.model_validate(row).expected


def test_conditions_and_implementations_have_the_fields_of_a_suite():
    assert tuple(CONDITION.model_fields) == CONDITION_FIELDS
    assert set(WORKLOAD_FIELDS) - set(CONDITION_FIELDS) == {"model", "method"}
    assert tuple(IMPLEMENTATION.model_fields) == IMPLEMENTATION_FIELDS


def test_only_the_fields_that_are_named_are_conditions():
    assert said(CONDITION.model_validate({"rank": 8, "modules": "v_proj, q_proj"})) == {"rank": 8, "modules": "q_proj,v_proj"}
    assert said(CONDITION.model_validate({})) == {}


@given(AMOUNTS, AMOUNTS)
def test_two_ends_stand_in_order_and_a_number_is_both(one, other):
    low, high = sorted((float(one), float(other)))
    assert expected([low, high]) == Expected(low, high)
    assert expected(low) == Expected(low, low)
    assert expected([low, "open"]) == Expected(low, None)
    assert expected(["open", high]) == Expected(None, high)
    if low < high:
        with pytest.raises(ValidationError, match="turn them round"):
            expected([high, low])


@pytest.mark.parametrize("value", [LARGEST * 1.1, float("nan"), float("inf"), -1, 0, True, "open", [], None])
def test_what_is_no_amount_is_refused(value):
    with pytest.raises(ValidationError):
        expected(value)


def test_a_name_stands_for_a_list_of_one():
    assert SideRow.model_validate({"machine": "h200"}) == SideRow.model_validate({"machine": ["h200"]})


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "a\x1b[2J", "a\x85b"])
def test_a_text_holds_nothing_that_a_terminal_obeys(text):
    with pytest.raises(ValidationError, match="line breaks or control characters"):
        TypeAdapter(Text).validate_python(text)


def test_a_text_may_hold_spaces_that_do_not_break():
    assert TypeAdapter(Text).validate_python("16\u00a0Go\u202f!") == "16\u00a0Go\u202f!"
