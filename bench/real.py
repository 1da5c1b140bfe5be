"""Which real weights a suite means: for each model where they lie, and which revision they are.

In: a suite and its cells. Out: the suite with each model's origin and revision, or why there are none. Weights in a folder are
checked here, and their digest is the revision; of the hub, the revision is the one given, or the catalogue's, or none: then the
hub is asked when the cell runs, and the run's row says what it answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bench.catalog import catalogue
from bench.model import Model
from bench.reading.strict import BadFile, shown
from bench.spec import Cell, Suite, Weights
from bench.weights import read_checkpoint

REVISION = r"[0-9a-f]{40}|[0-9a-f]{16}"
"""A commit of the hub, or the digest of a folder."""
COMMIT_DIGITS = 40

Fault = tuple[Weights, str]


def with_real_weights(suite: Suite, cells: Iterable[Cell]) -> tuple[Suite, list[Fault]]:
    """The suite with origins and revisions of the real weights that its cells name; and each value of `weights` at fault, why."""
    models, revisions, faults = dict(suite.models), dict[str, str](), list[Fault]()
    wanted = dict.fromkeys((cell.workload.model.name, cell.workload.weights, cell.workload.revision) for cell in cells)
    for name, kind, given in wanted:
        if kind == "random":
            continue
        try:
            models[name], revision = (_of_hub if kind == "hub" else _of_folder)(models[name], given)
        except BadFile as error:
            faults += [(kind, str(problem)) for problem in error.problems]
        except ValueError as error:
            faults.append((kind, str(error)))
        else:
            revisions |= {name: revision} if revision else {}
    return replace(suite, models=tuple(models.items()), revisions=tuple(revisions.items())), faults


def is_known(model: Model) -> bool:
    """Whether the model is one of the catalogue, rather than one that a path led to."""
    return catalogue().models.get(model.name) is model


def folder_of(path: Path) -> Path:
    """The folder in which the weights of a configuration lie: the path itself, or where the file is."""
    return path if path.is_dir() else path.parent


def _of_hub(model: Model, given: str | None) -> tuple[Model, str | None]:
    repo = catalogue().hubs.get(model.name)
    if repo is None:
        raise ValueError(f"no hub id is known of {model.name}; give a model of the catalogue, or weights of a folder")
    if given is not None and len(given) != COMMIT_DIGITS:
        raise ValueError(f"{shown(given)} is no commit of the hub: its 40 hex digits stand in the list of commits of {repo}")
    return replace(model, origin=repo), given or catalogue().revisions.get(model.name)


def _of_folder(model: Model, given: str | None) -> tuple[Model, str]:
    if model.origin is None or not Path(model.origin).is_absolute():
        wanted = "give the path of a folder with its config.json and safetensors files as the model"
        raise ValueError(f"{model.name} is a name of the catalogue, which holds no weights; {wanted}")
    digest = read_checkpoint(Path(model.origin)).digest()
    if given is not None and given != digest:
        raise ValueError(f"the weights in {model.origin} are {digest}, not {given}; correct or remove the revision")
    return model, digest
