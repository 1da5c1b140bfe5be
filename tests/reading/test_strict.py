import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.reading.strict import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    SHOWN_CHARACTERS,
    BadFile,
    Problem,
    beyond_json,
    key_path,
    meant,
    printable,
    read_json,
    read_toml,
    shown,
)


def fault(read, path):
    with pytest.raises(BadFile) as caught:
        read(path)
    (problem,) = caught.value.problems
    assert problem.file == printable(str(path))
    return problem.message


def test_a_problem_reads_file_path_message():
    assert str(Problem("a.toml", "sweep.rank[1]", "empty")) == "a.toml: sweep.rank[1]: empty"
    assert str(Problem("a.toml", "", "empty")) == "a.toml: empty"


def test_toml_is_read_with_a_byte_order_mark_and_windows_line_ends(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 'x'\r\n")
    assert read_toml(path) == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = 1\nb = = 2\n", "line 2, column 5: not valid TOML: Invalid value"),
        (b"a = 1\na = 2\n", "line 2, column 6: not valid TOML: Cannot overwrite a value"),
        (b"ok = 1\nx = \xff\n", "line 2: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b"x = " + b"[" * 5000 + b"]" * 5000, "nested too deeply to be meant"),
        (b"x = " + b"9" * 5000, "not valid TOML: Exceeds the limit"),
        (b"#" * (MAX_FILE_BYTES + 1), f"larger than {MAX_FILE_BYTES:,} bytes, and so not written by hand; give a smaller file"),
        (b"a = 1\nx" + b".a" * 50_000 + b" = 1\n", "line 2: more than 64 dots; break it into several lines"),
        ('"\u2028".'.encode() * 1000 + b"a = 1\n", "line 1: more than 64 dots"),
    ],
    ids=["syntax", "twice", "encoding", "deep", "digits", "large", "dots", "quoted dots"],
)
def test_toml_faults_say_where_and_what(tmp_path, content, message):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    assert fault(read_toml, path).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b": }', "line 2, column 7: not valid JSON"),
        (b'{"a": NaN}', "not valid JSON: NaN is no number"),
        (b"[" * 100_000, "nested too deeply to be meant"),
    ],
    ids=["syntax", "nan", "deep"],
)
def test_json_faults_say_where_and_what(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert fault(read_json, path).startswith(message)


def test_a_json_key_that_stands_twice_is_named_wherever_it_is(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": 1, "b": [{"c": 1, "c": 2, "c": 2}], "a": {"d\\u001b": 1, "d\\u001b": 1}}')
    with pytest.raises(BadFile) as caught:
        read_json(path)
    assert [str(problem).removeprefix(f"{path}: ") for problem in caught.value.problems] == [
        "b[0].c: stands twice; keep one of them",
        'a."d\\x1b": stands twice; keep one of them',
        "a: stands twice; keep one of them",
    ]


def test_what_json_readers_take_differently_is_named_with_its_place():
    deep: list[object] = [1]
    for _ in range(100_000):
        deep = [deep]
    content = {"a": [1, float("nan"), True, None, "x"], "b": {"c": 2**63, "d": -(2**63)}, "e": deep, "f": object}
    found = dict(beyond_json(content))
    assert found.pop(("f",)).startswith("expected what JSON can hold, got <class")
    assert found == {
        ("a", 1): "expected a finite number, got nan",
        ("b", "c"): "9223372036854775808 is out of range: must fit into 64 bits",
        ("e", *[0] * (MAX_DEPTH - 1)): "nested too deeply to be meant",
    }


def test_what_is_no_regular_file_is_not_opened(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.toml")
    assert fault(read_toml, tmp_path / "pipe.toml") == "cannot be read: it is no regular file"
    assert fault(read_toml, tmp_path) == "cannot be read: it is a folder"
    assert fault(read_toml, tmp_path / "none.toml") == "cannot be read: No such file or directory"
    assert fault(read_toml, tmp_path / ("a" * 300)) == "cannot be read: File name too long"
    assert fault(read_toml, tmp_path / "a\0b").startswith("cannot be read: ")


def test_keys_that_toml_would_quote_are_quoted():
    assert key_path(("sweep", "method", 1)) == "sweep.method[1]"
    assert key_path(("a b", "c\nd")) == '"a b"."c\\nd"'


def test_the_close_choice_is_offered_else_all():
    assert meant("lroa", ["full", "lora"]) == 'did you mean "lora"?'
    assert meant("zzz", ["full", "lora"]) == "use one of full, lora"
    assert meant("zzz", ["minutes"]) == "use minutes"
    assert meant("zzz", list("abcdefghij")).endswith("h, …")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ("a\x1b[31m\nb", '"a\\x1b[31m\\nb"'),
        ("\u202ex", '"\\u202ex"'),
        ([1], "a list"),
        ({}, "a table"),
        (1.5, "1.5"),
        pytest.param(10**4999, "a number of 16607 bits", id="huge"),
    ],
)
def test_values_are_shown_on_one_safe_line(value, text):
    assert shown(value) == text


@given(st.text(max_size=200))
def test_nothing_shown_can_move_a_cursor(text):
    line = shown(text)
    assert line.isprintable()
    assert len(line) <= 10 * SHOWN_CHARACTERS + 10  # one character becomes ten at most


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "garbage.toml"
    path.write_bytes(data)
    for read in (read_toml, read_json):
        try:
            read(path)
        except BadFile as error:
            message = str(error)
        else:
            message = ""
        assert message.isprintable()
