import random

import pytest

from hypersphere.core import INT64_MAX, parse_integer


@pytest.mark.parametrize("number", [0, 1, -1, 17, INT64_MAX, -(2**63)])
def test_integers_within_their_range_are_read(number: int) -> None:
    assert parse_integer(str(number), "list.txt, line 1: label", low=-(2**63)) == number


@pytest.mark.parametrize(
    "text", ["", "-", "+1", " 1", "1 ", "1_000", "1.0", "1e3", "0x10", "--1", "१", "²", "\0", "nan", "1\n"]
)
def test_only_ascii_digits_are_integers(text: str) -> None:
    with pytest.raises(ValueError, match=r"list\.txt, line 1: label .* is not an integer"):
        parse_integer(text, "list.txt, line 1: label", low=-5)


def test_the_range_is_kept_and_named() -> None:
    for text in ("-2", "11", "9" * 19, str(INT64_MAX + 1)):
        with pytest.raises(ValueError, match=r"list\.txt: label .*out of range; expected a whole number from -1 to 10"):
            parse_integer(text, "list.txt: label", -1, 10)


def test_a_number_of_too_many_digits_is_not_computed() -> None:
    with pytest.raises(ValueError, match=r"label '0{40}' has 100000 digits") as caught:
        parse_integer("0" * 100_000, "label")
    assert len(str(caught.value)) < 200


def test_any_text_is_its_integer_or_a_named_error() -> None:
    rng = random.Random(7)
    for _ in range(2000):
        text = "".join(rng.choices("0123456789-+_ .e\t१", k=rng.randrange(25)))
        message = ""
        try:
            number = parse_integer(text, "f.txt: count", -100, 10**6)
        except ValueError as error:
            message = str(error)
        if message:
            assert message.startswith("f.txt: count")
        else:
            assert str(number) == str(int(text))
            assert -100 <= number <= 10**6
