import pytest

from bench.files.seal import BLANK, check_seal, seal

OF_NOTHING_ELSE = b"48de9ebe00f7dfb66dd561d1a204d74e8ba979186b853eba5e7b41d4c0df4e40"
CONTENT = b"PAR1 some pages " + BLANK.encode() + b" a footer PAR1"


def test_a_sealed_content_keeps_its_length_and_holds():
    sealed = seal(CONTENT)
    assert len(sealed) == len(CONTENT)
    assert sealed != CONTENT
    check_seal(sealed)


def test_every_flipped_bit_is_seen():
    sealed = seal(CONTENT)
    for bit in range(len(sealed) * 8):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match=r"seal"):
            check_seal(bytes(damaged))


def test_every_truncation_is_seen():
    sealed = seal(CONTENT)
    for length in range(len(sealed)):
        with pytest.raises(ValueError, match=r"seal|is empty"):
            check_seal(sealed[:length])


def test_what_is_appended_is_seen():
    with pytest.raises(ValueError, match="does not hold"):
        check_seal(seal(CONTENT) + b"\0")


def test_a_blank_seal_does_not_hold():
    with pytest.raises(ValueError, match="does not hold"):
        check_seal(CONTENT)


def test_a_content_is_sealed_once():
    with pytest.raises(ValueError, match="sealed already"):
        seal(seal(CONTENT))


def test_the_form_of_the_seal_is_fixed_for_ever():
    assert seal(BLANK.encode()) == b"wingspan-sha256:" + OF_NOTHING_ELSE
