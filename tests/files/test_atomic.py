import errno
import fcntl
import os
import resource
import stat
from contextlib import contextmanager

import pytest

from bench.files import atomic


def write(path, content=b"content"):
    with atomic.staged(path, content) as temporary:
        atomic.publish(temporary, path)


def is_folder(descriptor):
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_and_leaves_nothing_else(tmp_path):
    write(tmp_path / "a" / "b" / "x.parquet")
    assert (tmp_path / "a" / "b" / "x.parquet").read_bytes() == b"content"
    assert names(tmp_path / "a" / "b") == ["x.parquet"]


@pytest.fixture
def told(monkeypatch):
    """What is asked of the operating system, in order."""
    calls = []

    def listen(name):
        real = getattr(os, name)

        def call(*given, **options):
            calls.append(f"fsync {'folder' if is_folder(given[0]) else 'file'}" if name == "fsync" else name)
            return real(*given, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("mkdir", "write", "fsync", "link", "replace"):
        listen(name)
    return calls


def test_it_is_on_disk_before_it_is_visible_and_its_name_before_it_is_acknowledged(tmp_path, told):
    write(tmp_path / "new" / "x.parquet")
    assert told == ["mkdir", "fsync folder", "write", "fsync file", "link", "fsync folder"]


def test_so_it_is_where_it_replaces_or_is_removed(tmp_path, told):
    path = tmp_path / "x.parquet"
    with atomic.staged(path, b"content") as temporary:
        atomic.republish(temporary, path)
    atomic.remove(path)
    assert told == ["write", "fsync file", "replace", "fsync folder", "fsync folder"]


def test_a_file_that_is_there_is_never_replaced(tmp_path):
    path = tmp_path / "x.parquet"
    write(path, b"first")
    with pytest.raises(FileExistsError) as raised:
        write(path, b"second")
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["x.parquet"]


def test_republish_replaces(tmp_path):
    path = tmp_path / "x.parquet"
    write(path, b"first")
    with atomic.staged(path, b"second") as temporary:
        atomic.republish(temporary, path)
    assert path.read_bytes() == b"second"
    assert names(tmp_path) == ["x.parquet"]


def test_remove_is_content_with_nothing_to_remove(tmp_path):
    atomic.remove(tmp_path / "nowhere" / "x.parquet")
    write(tmp_path / "x.parquet")
    atomic.remove(tmp_path / "x.parquet")
    assert names(tmp_path) == []


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, content[:3]))
    write(tmp_path / "x.parquet", b"0123456789")
    assert (tmp_path / "x.parquet").read_bytes() == b"0123456789"


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_hard_links_is_told_with_its_remedy(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="put --results on one that has") as raised:
        write(tmp_path / "x.parquet")
    assert (raised.value.errno, raised.value.filename) == (number, str(tmp_path / "x.parquet"))
    assert os.strerror(number) in raised.value.strerror
    assert names(tmp_path) == []


def test_other_failures_to_link_bear_no_such_remedy(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="disk full") as raised:
        write(tmp_path / "x.parquet")
    assert "hard links" not in str(raised.value)


@contextmanager
def largest_file(size):
    """The operating system itself refuses to let a file grow beyond `size` bytes: a write is cut short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_the_system_cuts_short_leaves_nothing(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(OSError, match=r"x\.parquet") as raised, largest_file(5):
        write(path, b"0123456789")
    assert raised.value.errno == errno.EFBIG
    assert names(tmp_path) == []


def test_a_name_that_cannot_be_flushed_is_withdrawn(tmp_path, monkeypatch):
    real = os.fsync

    def fail_on_folders(descriptor):
        if is_folder(descriptor):
            raise OSError(errno.EIO, "input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail_on_folders)
    with pytest.raises(OSError, match=r"x\.parquet"):
        write(tmp_path / "x.parquet")
    assert names(tmp_path) == []


def test_sweep_takes_the_abandoned_and_leaves_what_is_being_written(tmp_path):
    abandoned = tmp_path / "._old.0123abcd.part"
    abandoned.write_bytes(b"half")
    (tmp_path / "other.part").write_bytes(b"not ours")
    with atomic.staged(tmp_path / "x.parquet", b"content") as temporary:
        assert atomic.sweep(tmp_path) == [abandoned]
        assert temporary.exists()
        atomic.publish(temporary, tmp_path / "x.parquet")
    assert names(tmp_path) == ["other.part", "x.parquet"]
    assert atomic.sweep(tmp_path) == []


def test_sweep_keeps_the_file_whose_second_name_it_removes(tmp_path):
    """What a kill between link and unlink leaves: two names for one whole file."""
    write(tmp_path / "x.parquet")
    os.link(tmp_path / "x.parquet", tmp_path / "._x.0123abcd.part")
    assert len(atomic.sweep(tmp_path)) == 1
    assert (tmp_path / "x.parquet").read_bytes() == b"content"


def test_a_temporary_file_swept_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    real, swept = fcntl.flock, []

    def sweep_first(descriptor, operation):
        if not swept:
            swept.extend(tmp_path.glob("._*.part"))
            swept[0].unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    write(tmp_path / "x.parquet")
    assert len(swept) == 1
    assert names(tmp_path) == ["x.parquet"]
    assert (tmp_path / "x.parquet").read_bytes() == b"content"


def test_without_locks_files_are_written_and_leftovers_stay(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOTSUP, "no locks here")

    (tmp_path / "._old.0123abcd.part").write_bytes(b"half")
    monkeypatch.setattr(fcntl, "flock", refuse)
    write(tmp_path / "x.parquet")
    assert atomic.sweep(tmp_path) == []
    assert names(tmp_path) == ["._old.0123abcd.part", "x.parquet"]
