"""An extra's requirements without their pins: what a night asks pip for, so that upstream releases can be tracked.

In: pyproject.toml and the name of an extra. Out: its requirements, each allowed to move up from the version that it is pinned
to. Which versions are installed is then said by the lock alone (`bench.locks`); or, in an upgrade, by what upstream's own
requirements let pip choose.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

PINS = ("==", "===", "~=")
UPPER_BOUNDS = ("<", "<=")


def loosened(pyproject: Path, extra: str, held: Collection[str] = ()) -> list[str]:
    """The requirements of an extra, those of its extras of the same project among them, as pip takes them.

    `==X` and `~=X` become `>=X`, upper bounds go; lower bounds, exclusions (`!=X`: a release that is to be passed over), extras
    and markers stay. The packages named in `held` stay as they are. Raises KeyError for an extra that is not there.
    """
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    kept = {canonicalize_name(each) for each in held}
    found = []
    for requirement in _flat(project, extra):
        if canonicalize_name(requirement.name) not in kept:
            requirement.specifier = _without_ceiling(requirement.specifier)
        found.append(str(requirement))
    return found


def _flat(project: dict[str, Any], extra: str) -> Iterator[Requirement]:
    """An extra's requirements; in the place of one on this project's own extras what those require, where it applies."""
    for text in project["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) != canonicalize_name(project["name"]):
            yield requirement
            continue
        for nested in (each for name in sorted(requirement.extras) for each in _flat(project, name)):
            nested.marker = _both(requirement.marker, nested.marker)
            yield nested


def _both(outer: Marker | None, inner: Marker | None) -> Marker | None:
    if outer is None or inner is None:
        return outer or inner
    return Marker(f"({outer}) and ({inner})")


def _without_ceiling(specifiers: SpecifierSet) -> SpecifierSet:
    bounds = (_bound(each) for each in specifiers if each.operator not in UPPER_BOUNDS)
    return SpecifierSet(",".join(bounds))


def _bound(specifier: Specifier) -> str:
    """A pin as the lower bound that it implies: `==2.13.0+cpu` as `>=2.13.0`, `==1.*` as `>=1`. Others as they are."""
    if specifier.operator not in PINS:
        return str(specifier)
    return f">={Version(specifier.version.removesuffix('.*')).public}"
