"""The device that is chosen, and what is said of one that is not there."""

import pytest
import torch

from hypersphere.core import choose_device


@pytest.fixture(params=[(0, False), (2, False), (0, True)], ids=["cpu", "cuda", "mps"])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, bool]:
    count, mps = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    return count, mps


def test_what_there_is(there: tuple[int, bool]) -> None:
    count, mps = there
    assert choose_device() == ("cuda" if count else "cpu")
    assert choose_device("cpu") == "cpu"
    for name, found in (("cuda", count > 0), ("cuda:1", count > 1), ("mps", mps)):
        if found:
            assert choose_device(name) == name
        else:
            with pytest.raises(ValueError, match=f"device='{name}': there is no .* device that this torch can use"):
                choose_device(name)


def test_what_there_cannot_be(there: tuple[int, bool]) -> None:
    with pytest.raises(ValueError, match="device='cdua' is unknown; did you mean 'cuda'"):
        choose_device("cdua")
    for name in ("cpu:x", "cpu:1"):
        with pytest.raises(ValueError, match="there is cpu:0 only"):
            choose_device(name)
    if there[0]:
        with pytest.raises(ValueError, match="there is cuda:0 to cuda:1"):
            choose_device("cuda:2")
