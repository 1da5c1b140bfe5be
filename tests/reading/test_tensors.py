"""The header of a safetensors file: every way in which it can be at odds with itself or with its file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from bench.reading.strict import BadFile
from bench.reading.tensors import read_header

WHOLE = "model.safetensors"
TENSORS = {
    "model.norm.weight": np.ones(4, np.float16),
    "lm_head.weight": np.arange(20_000, dtype=np.float32).reshape(5000, 4),
}


def whole(folder: Path) -> Path:
    save_file(TENSORS, folder / WHOLE)
    return folder


def faults(folder: Path) -> list[str]:
    with pytest.raises(BadFile) as caught:
        read_header(folder / WHOLE)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).split("\n")]


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The file with another header."""
    data = (whole(folder) / WHOLE).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    (folder / WHOLE).write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    return folder


@pytest.mark.parametrize("kept", [4, 40, -1], ids=["in the length", "in the header", "in the data"])
def test_a_truncated_file_is_said_to_be_one(tmp_path: Path, kept: int) -> None:
    file = whole(tmp_path) / WHOLE
    data = file.read_bytes()
    file.write_bytes(data[:kept])
    said = faults(tmp_path)
    assert len(said) == 1
    if kept == -1:
        assert said == [f"model.safetensors: is truncated: {len(data) - 1:,} of {len(data):,} bytes are there; fetch it again"]
    elif kept == 40:
        assert said[0].startswith("model.safetensors: is truncated: 40 of ")
    else:
        assert said[0].startswith("model.safetensors: is no safetensors file")


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{x"]
)
def test_what_is_no_safetensors_file_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / WHOLE).write_bytes(content)
    assert len(said := faults(tmp_path)) == 1
    assert "model.safetensors: is no safetensors file" in said[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda header: header["lm_head.weight"].update(dtype="F4"), '"lm_head.weight" is of an unknown dtype, "F4"; known are'),
        (lambda header: header["lm_head.weight"].update(shape=[5000, 5]), "takes 80,000 bytes, its shape and dtype make 100,000"),
        (
            lambda header: header["lm_head.weight"].update(shape=[2**62] * 300),
            '"lm_head.weight" has no shape, or no place in the file',
        ),
        (lambda header: header["lm_head.weight"].update(shape=[-1, 4]), '"lm_head.weight" has no shape, or no place in the file'),
        (lambda header: header["lm_head.weight"].update(shape=[True, 4]), "has no shape, or no place in the file"),
        (lambda header: header["lm_head.weight"].pop("data_offsets"), "has no shape, or no place in the file"),
        (lambda header: header.update({"lm_head.weight": 3}), "is of an unknown dtype"),
        (lambda header: header.pop("lm_head.weight"), ""),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path: Path, change: Callable[[Any], object], said: str) -> None:
    assert len(lines := faults(rewritten(tmp_path, change))) == 1
    assert said in lines[0]


def test_tensors_that_overlap_are_refused(tmp_path: Path) -> None:
    def overlap(header: dict[str, Any]) -> None:
        header["model.norm.weight"]["data_offsets"] = header["lm_head.weight"]["data_offsets"][0:1] * 2
        header["model.norm.weight"].update(shape=[2], data_offsets=[4, 8])

    assert "starts at byte" in faults(rewritten(tmp_path, overlap))[0]


def test_the_metadata_is_no_tensor(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / WHOLE, metadata={"format": "pt"})
    assert set(read_header(tmp_path / WHOLE)) == set(TENSORS)


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    assert faults(tmp_path) == ["model.safetensors: is missing; fetch it again"]
