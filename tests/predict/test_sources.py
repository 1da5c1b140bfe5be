"""Rows of the same people are one source."""

from __future__ import annotations

from observed import observation

from bench.predict.sources import of_one_source


def families(*rows: tuple[str, str]) -> list[str]:
    return [seen.family for seen in of_one_source(observation(family=family, source=source) for family, source in rows)]


def test_one_repository_is_one_source_whatever_the_ids() -> None:
    assert families(("b", "owner/repo README"), ("a", "Owner/Repo issue #3"), ("c", "owner/other README")) == ["a", "a", "c"]


def test_a_chain_of_shared_repositories_is_one_source() -> None:
    assert families(("c", "x/one"), ("b", "x/one"), ("b", "x/two"), ("a", "x/two"), ("d", "no repository")) == ["a"] * 4 + ["d"]


def test_without_a_repository_the_family_stays() -> None:
    assert families(("a", "a vendor's page"), ("b", "a vendor's page")) == ["a", "b"]
