"""How a command ends."""

import pytest

from bench.commands.exits import bad_input
from bench.spec import BadInput


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BadInput("suite.toml: no such key"), 2, "suite.toml: no such key\n"),
        (OSError(28, "No space left on device", "results"), 4, "results: No space left on device\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_what_can_be_mended_is_one_message_and_a_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving, bad_input():
        raise error
    assert (leaving.value.code, capsys.readouterr().err) == (code, said)


def test_a_reader_that_has_seen_enough_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokenPipeError), bad_input():
        raise BrokenPipeError(32, "Broken pipe")
    assert capsys.readouterr().err == ""
