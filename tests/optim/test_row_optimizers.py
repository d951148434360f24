"""RowSGD and RowAdamW: torch's numbers for dense gradients, frozen rows for sparse ones, all of it in the state."""

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.geometry import normalize
from hypersphere.optim import clip_grad_norm_

C, D = 9, 4
PAIRS: dict[str, tuple[Callable[..., torch.optim.Optimizer], Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (hs.RowSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "plain sgd": (hs.RowSGD, torch.optim.SGD, {"lr": 0.1}),
    "adamw": (hs.RowAdamW, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


def parameter(*shape: int, seed: int = 0) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


def sparse(index: list[int], seed: int, *shape: int) -> Tensor:
    values = torch.randn(len(index), *shape[1:], dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.sparse_coo_tensor(torch.tensor([index]), values, shape, check_invariants=True)


def tensors(state: Any) -> list[Tensor]:
    return [value for entry in state.values() for value in entry.values() if isinstance(value, Tensor)]


@pytest.mark.parametrize("kind", PAIRS)
def test_rows_that_all_have_a_gradient_move_as_torch_moves_them(kind: str) -> None:
    ours, theirs, options = PAIRS[kind]
    for shape in ((C, D), (C,)):
        mine, other = parameter(*shape), parameter(*shape)
        first, second = ours([mine], **options), theirs([other], **options)
        for step in range(4):
            grad = sparse(list(range(C)), step, *shape)
            mine.grad, other.grad = grad, grad.to_dense()
            first.step()
            second.step()
        torch.testing.assert_close(mine, other, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("kind", PAIRS)
def test_every_row_moves_as_if_it_were_alone(kind: str) -> None:
    """A row's path is torch's path of that row under the gradients it had, the steps without one left out."""
    ours, theirs, options = PAIRS[kind]
    mine, dense = parameter(C, D), parameter(3, 2, seed=5)
    alone = [nn.Parameter(row.clone()) for row in mine.detach()]
    second = [theirs([row], **options) for row in alone]
    other = copy.deepcopy(dense)
    first, third = ours([mine, dense], **options), theirs([other], **options)
    for step, index in enumerate([[0, 2, 5], [2, 5, 8], [1], [0, 1, 2, 3, 4, 5, 8], [5, 0]]):
        mine.grad = sparse(index, step, C, D)
        dense.grad = parameter(3, 2, seed=step).detach()
        other.grad = dense.grad.clone()
        before, memory = mine.detach().clone(), [value.clone() for value in tensors(first.state)]
        first.step()
        third.step()
        for row, grad in zip(index, mine.grad._values(), strict=True):
            alone[row].grad = grad
            second[row].step()
        frozen = [row for row in range(C) if row not in index]
        assert torch.equal(mine[frozen], before[frozen])
        if memory:
            for value, old in zip(tensors(first.state), memory, strict=True):
                if len(value.shape) and len(value) == C:
                    assert torch.equal(value[frozen], old[frozen])
    torch.testing.assert_close(mine.detach(), torch.stack([row.detach() for row in alone]), rtol=1e-13, atol=1e-13)
    assert torch.equal(dense, other), "a dense gradient is torch's own step"


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("dense", [(True, False, True), (False, True, False)])
def test_dense_gradients_and_sparse_ones_in_turn(kind: str, dense: tuple[bool, ...]) -> None:
    """A head that samples has dense gradients in eval mode; a run may begin without sampling."""
    ours, theirs, options = PAIRS[kind]
    mine, other = parameter(C, D), parameter(C, D)
    first, second = ours([mine], **options), theirs([other], **options)
    for step, whole in enumerate(dense):
        grad = sparse(list(range(C)), step, C, D)
        mine.grad, other.grad = grad.to_dense() if whole else grad, grad.to_dense()
        first.step()
        second.step()
    torch.testing.assert_close(mine, other, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_gradient_in_parts_is_their_sum(kind: str) -> None:
    ours, _, options = PAIRS[kind]
    mine, other = parameter(C, D), parameter(C, D)
    first, second = ours([mine], **options), ours([other], **options)
    parts = [sparse([0, 3, 4], 1, C, D), sparse([3, 8], 2, C, D)]
    mine.grad = parts[0] + parts[1]
    other.grad = (parts[0] + parts[1]).coalesce()
    assert mine.grad._nnz() >= other.grad._nnz()
    first.step()
    second.step()
    assert torch.equal(mine, other)
    assert mine.grad is not None, "the gradient stays until it is zeroed"


@pytest.mark.parametrize("kind", PAIRS)
def test_the_state_comes_back_from_a_file(kind: str) -> None:
    ours, _, options = PAIRS[kind]
    mine = parameter(C, D)
    first = ours([mine], **options)
    for step in range(3):
        mine.grad = sparse([step, 5], step, C, D)
        first.step()
    buffer = io.BytesIO()
    torch.save({"weight": mine.detach(), "state": first.state_dict()}, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    other = nn.Parameter(saved["weight"])
    second = ours([other], lr=9.0)
    second.load_state_dict(saved["state"])
    for weight, optimizer in ((mine, first), (other, second)):
        weight.grad = sparse([1, 5, 7], 9, C, D)
        optimizer.step()
    assert torch.equal(mine, other)
    for value in tensors(first.state):
        assert value.shape in ((C, D), (C,)), "one row per class, to be sharded like the weight"


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("overflow", [False, True])
def test_a_gradient_scaler_works(kind: str, overflow: bool) -> None:
    ours, theirs, options = PAIRS[kind]
    mine, other = nn.Parameter(torch.ones(C, D)), nn.Parameter(torch.ones(C, D))
    first, second = ours([mine], **options), theirs([other], **options)
    scaler, reference = (torch.amp.GradScaler("cpu", init_scale=8.0) for _ in range(2))
    for weight, optimizer, scales in ((mine, first, scaler), (other, second, reference)):
        scales.scale(torch.zeros(()))
        grad = 8 * sparse(list(range(C)), 0, C, D).float()
        if overflow:
            grad._values()[2, 1] = torch.inf
        weight.grad = grad if weight is mine else grad.to_dense()
        scales.step(optimizer)
        scales.update()
    torch.testing.assert_close(mine, other)
    assert torch.equal(mine, torch.ones(C, D)) == overflow
    assert scaler.get_scale() == reference.get_scale()


def test_the_gradient_of_unit_vectors_goes_through_their_normalisation() -> None:
    options: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    mine, other = parameter(C, D), parameter(C, D)
    first, second = hs.RowSGD([mine], unit_eps=1e-6, **options), torch.optim.SGD([other], **options)
    for step in range(3):
        grad = parameter(C, D, seed=step).detach()
        mine.grad = grad.clone()
        second.zero_grad()
        (normalize(other, 1e-6) * grad).sum().backward()
        first.step()
        second.step()
    torch.testing.assert_close(mine, other, rtol=1e-13, atol=1e-13)


def test_a_closure_is_called_once_with_gradients() -> None:
    calls = []
    weight = parameter(C, D)
    optimizer = hs.RowSGD([weight], lr=0.1)

    def closure() -> Tensor:
        calls.append(torch.is_grad_enabled())
        weight.grad = sparse([1], 0, C, D)
        return torch.tensor(3.0)

    assert optimizer.step(closure) == 3
    assert calls == [True]


@pytest.mark.parametrize("kind", PAIRS)
def test_hooks_are_called_once(kind: str) -> None:
    ours, theirs, options = PAIRS[kind]
    theirs([parameter(2, 2)], **options)
    weight, dense, calls = parameter(C, D), parameter(2), []
    optimizer = ours([weight, dense], **options)
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    weight.grad, dense.grad = sparse([1], 0, C, D), torch.ones(2, dtype=torch.float64)
    before = dense.detach().clone()
    optimizer.step()
    assert calls == ["before", "after"]
    assert not torch.equal(dense, before)


def test_a_wrong_epsilon_is_refused() -> None:
    with pytest.raises(ValueError, match="unit_eps"):
        hs.RowSGD([parameter(C, D)], lr=0.1, unit_eps=-1.0)


@pytest.mark.parametrize("largest", [0.1, 1e6])
def test_clipping_counts_the_rows_of_sparse_gradients(largest: float) -> None:
    sparse_one, dense_one = parameter(C, D), parameter(3, 2, seed=5)
    both = parameter(C, D), parameter(3, 2, seed=5)
    sparse_one.grad = sparse([0, 3, 4], 1, C, D) + sparse([3, 8], 2, C, D)
    dense_one.grad = parameter(3, 2, seed=9).detach()
    both[0].grad, both[1].grad = sparse_one.grad.to_dense(), dense_one.grad.clone()
    norm = clip_grad_norm_([sparse_one, dense_one, parameter(2)], largest)
    torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(both, largest))
    torch.testing.assert_close(sparse_one.grad.to_dense(), both[0].grad)
    torch.testing.assert_close(dense_one.grad, both[1].grad)
