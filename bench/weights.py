"""Real weights: what a folder of safetensors files holds, checked before any framework opens it.

In: a folder. Out: a `Checkpoint`, which knows every tensor's name, kind, shape and place, and has a digest; or every fault of the
files at once. `matched` brings the names of a checkpoint and of a model together. Only headers are read, and for the digest a
few blocks of each tensor, so that 140 GB take about a second. Weights that only unpickling can read are refused: a pickle runs
whatever code it holds.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.model import canonical_json
from bench.reading.strict import BadFile, Problem, first_of, read_json, shown
from bench.reading.tensors import Tensor, fault, opened, read_header

LOADABLE = ("F64", "F32", "F16", "BF16")
"""Kinds that are weights as they stand. The others are indices, or weights quantised in a way that only their maker knows."""
SAMPLE_BYTES = 4096
INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
NO_WEIGHTS = ("rotary_emb.inv_freq",)
"""Ends of names that older files hold beside the weights: what the configuration says already."""
OTHER_PARTS = tuple(f"{prefix}{part}." for prefix in ("", "model.") for part in ("vision_tower", "multi_modal_projector"))
"""Parts of a model that also sees, which its text model lacks."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors of a folder by name, whichever file they lie in."""

    folder: Path
    tensors: Mapping[str, Tensor]

    def digest(self) -> str:
        """16 hex digits over each tensor's name, kind, shape and a sample of its bytes: the start, the middle and the end.

        The same tensors have the same digest however they are spread over files. Training changes practically every weight of
        what it trains, so a sample tells; a single changed number elsewhere stays unseen. Raises BadFile.
        """
        digest = hashlib.sha256()
        with ExitStack() as stack:
            places = {tensor.file for tensor in self.tensors.values()}
            files = {file: stack.enter_context(opened(file)) for file in places}
            for name in sorted(self.tensors):
                tensor = self.tensors[name]
                digest.update(canonical_json([name, tensor.dtype, tensor.shape]).encode())
                for place, count in _sample(tensor.stop - tensor.start):
                    digest.update(os.pread(files[tensor.file].fileno(), count, tensor.start + place))
        return digest.hexdigest()[:16]


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder: `model.safetensors`, else the files that the index names, else the only safetensors file.

    Raises BadFile with every fault: no weights, pickled ones only, a missing or truncated file, a header that contradicts itself
    or the file's size, tensors that the index has and the files lack or the other way round.
    """
    files, index = _files(folder)
    tensors: dict[str, Tensor] = {}
    problems: list[Problem] = []
    for file in files:
        try:
            found = read_header(file)
        except BadFile as error:
            problems += error.problems
            continue
        problems += [fault(file, f"{shown(name)} stands in {tensors[name].file.name} too") for name in found if name in tensors]
        tensors |= found
    if problems:
        raise BadFile(problems)
    if index is not None:
        problems += _against_index(folder / INDEX, index, tensors)
    if problems:
        raise BadFile(problems)
    return Checkpoint(folder, tensors)


def checkpoint_of(folder: Path, revision: str | None) -> Checkpoint:
    """The checkpoint in a folder, which must have the digest `revision` where one is given.

    Raises BadFile as `read_checkpoint` does, and where the files are others than those that the digest was taken of.
    """
    checkpoint = read_checkpoint(folder)
    if revision is not None and (found := checkpoint.digest()) != revision:
        message = f"its weights have changed since the suite was read ({revision} then, {found} now); run the suite again"
        raise BadFile([fault(folder, message)])
    return checkpoint


def matched(checkpoint: Checkpoint, wanted: Mapping[str, tuple[int, ...]], *, tied: bool) -> dict[str, Tensor]:
    """For each parameter of a model, by name and shape, the tensor that holds it.

    A name may lack the leading `model.` (a base model saved alone) or have `language_model` in front of it (a model that also
    sees). Where embedding and head are `tied`, a head in the file is passed over. Raises BadFile that names what is missing, what
    has no place in the model, and what has another shape.
    """
    found: dict[str, Tensor] = {}
    surplus, twice = [], []
    for name, tensor in checkpoint.tensors.items():
        place = next((each for each in _spellings(name) if each in wanted), None)
        if place in found:
            twice.append(name)
        elif place is not None:
            found[place] = tensor
        elif not _passed_over(name, tied):
            surplus.append(name)
    missing = [name for name in wanted if name not in found]
    shapes = {name: (found[name].shape, shape) for name, shape in wanted.items() if name in found}
    unlike = [f"{name} has {_shape(there)}, wanted {_shape(shape)}" for name, (there, shape) in shapes.items() if there != shape]
    packed = [f"{name} ({tensor.dtype})" for name, tensor in found.items() if tensor.dtype not in LOADABLE]
    lists = (
        ("lacks {} of this architecture's weights", missing),
        ("holds {} tensors that this architecture has no place for", surplus),
        ("holds {} weights under two names", twice),
        ("holds {} weights of another shape than the config.json makes", unlike),
        ("holds {} weights that are quantised already; take those in 16 bits", packed),
    )
    problems = [fault(checkpoint.folder, f"{what.format(len(names))}: {first_of(names)}") for what, names in lists if names]
    if problems:
        raise BadFile(problems)
    return found


def _spellings(name: str) -> tuple[str, ...]:
    without = name.removeprefix("language_model.")
    return (name, f"model.{name}", without, name.replace("model.language_model.", "model.", 1))


def _passed_over(name: str, tied: bool) -> bool:
    return name.endswith(NO_WEIGHTS) or name.startswith(OTHER_PARTS) or (tied and name.endswith("lm_head.weight"))


def _files(folder: Path) -> tuple[list[Path], dict[str, Any] | None]:
    """The files that hold the weights, and the index where there is one."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise BadFile([fault(folder, f"cannot be read: {error.strerror}")]) from None
    single = [name for name in names if name.endswith(".safetensors")]
    if WHOLE in single:
        return [folder / WHOLE], None
    if INDEX in names:
        index = _read_index(folder / INDEX)
        return [folder / name for name in sorted(set(index.values()))], index
    if len(single) == 1:
        return [folder / single[0]], None
    raise BadFile([fault(folder, _no_weights(folder, single))])


def _no_weights(folder: Path, single: list[str]) -> str:
    if single:
        return f"holds {len(single)} safetensors files ({first_of(single)}) and no {INDEX} that says which; add it"
    pickled = sorted({found.name for pattern in PICKLED for found in folder.glob(pattern)})
    if pickled:
        wanted = "take the safetensors files of the same model, or save it anew with save_pretrained of transformers"
        return f"holds pickled weights only ({first_of(pickled)}), and a pickle can run any code when it is read; {wanted}"
    return f"holds no weights; put {WHOLE} beside the config.json, or the files that {INDEX} names"


def _read_index(path: Path) -> dict[str, str]:
    content = read_json(path)
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not names:
        raise BadFile([fault(path, "weight_map is missing: expected a table that gives each tensor its file")])
    wrong = [shown(name) for name in names.values() if not (isinstance(name, str) and _is_plain(name))]
    if wrong:
        raise BadFile([fault(path, f"weight_map names {wrong[0]}, which is no safetensors file of this folder")])
    return names


def _is_plain(name: str) -> bool:
    return name.endswith(".safetensors") and not {"/", "\\", "\0"} & set(name)


def _against_index(path: Path, index: Mapping[str, str], tensors: Mapping[str, Tensor]) -> Iterator[Problem]:
    elsewhere = [name for name, file in index.items() if name not in tensors or tensors[name].file.name != file]
    unnamed = [name for name in tensors if name not in index]
    if elsewhere:
        yield fault(path, f"names {len(elsewhere)} tensors that its files lack: {first_of(elsewhere)}; fetch the files again")
    if unnamed:
        yield fault(path, f"leaves out {len(unnamed)} tensors of its files: {first_of(unnamed)}; fetch the files again")


def _sample(size: int) -> Iterator[tuple[int, int]]:
    """(start, length) of the blocks of a tensor of `size` bytes that enter the digest."""
    if size <= 3 * SAMPLE_BYTES:
        yield 0, size
        return
    for place in (0, (size - SAMPLE_BYTES) // 2, size - SAMPLE_BYTES):
        yield place, SAMPLE_BYTES


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(str(each) for each in shape) or "a single number"
