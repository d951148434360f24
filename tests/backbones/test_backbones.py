"""Every backbone: its shapes, its switches, what it must not do, and its bad input."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hypersphere.backbones import BACKBONES, Backbone, create_backbone, list_backbones
from hypersphere.backbones.stages import run

NAMES = list_backbones()
FAMILIES = [
    "sfnet10",
    "resnet28",
    "iresnet18",
    "lightcnn29",
    "mobilefacenet",
    "cnn4",
    "lenet",
    "resnet18_cifar",
    "resnet50",
]
SIZES = [(112, 96), (112, 112), (64, 64), (32, 32), (28, 28), (128, 128), (256, 128)]


def make(name: str, seed: int = 0, **arguments: Any) -> Backbone:
    """The net at the smallest of the usual sizes that it takes."""
    torch.manual_seed(seed)
    size = (48, 48) if name == "resnet28" else (32, 32)
    return create_backbone(name, **{"dim": 8, "input_size": size, **arguments})


def images_for(net: Backbone, count: int = 3, seed: int = 1) -> Tensor:
    return torch.randn(count, net.channels, *net.input_size, generator=torch.Generator().manual_seed(seed))


def step(net: Backbone, images: Tensor) -> Tensor:
    """Forward and backward of a loss that no symmetry makes flat."""
    out: Tensor = net(images)
    weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).reshape(out.shape)
    ((out + 0.1 * out**2) * weights).sum().backward()
    return out


def test_the_names_are_the_ones_promised() -> None:
    assert set(NAMES) == {
        *(f"sfnet{depth}" for depth in (4, 10, 20, 36, 64)),
        *(f"iresnet{depth}" for depth in (18, 34, 50, 100)),
        *("lightcnn9", "lightcnn29", "resnet28", "mobilefacenet", "cnn4", "lenet"),
        *("resnet10_cifar", "resnet18_cifar", "resnet34_cifar", "resnet50"),
    }
    assert list_backbones("sfnet?0") == ["sfnet10", "sfnet20"]
    assert create_backbone("cnn4").name == "cnn4"


@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_reaches_every_parameter(name: str) -> None:
    net = make(name).train()
    images = images_for(net)
    out = step(net, images)
    assert out.shape == (3, 8)
    assert (net.dim, net.channels) == (8, 3)
    assert images.equal(images_for(net)), "a layer in place changed the images"
    for key, parameter in net.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all(), key
            assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_last_layer_fits_every_size(name: str, size: tuple[int, int]) -> None:
    channels = 1 if size in ((28, 28), (128, 128)) else 3
    with torch.device("meta"):
        if min(size) < 48 and name == "resnet28":
            with pytest.raises(ValueError, match=f"{size[0]}x{size[1]} is too small for resnet28: it takes 48x48"):
                create_backbone(name, input_size=size)
            return
        if min(size) < 32 and name == "resnet50":
            with pytest.raises(ValueError, match="too small for resnet50: it takes 32x32 or more"):
                create_backbone(name, input_size=size)
            return
        net = create_backbone(name, dim=3, input_size=size, channels=channels)
        x = torch.empty(2, channels, *size)
    for stage in net.stages():
        x = run(stage, x)
    last = next(module for module in net.modules() if isinstance(module, nn.Linear))
    assert x.flatten(1).shape[1] == last.in_features
    assert last.out_features == (6 if name.startswith("lightcnn") else 3)


@pytest.mark.parametrize("name", FAMILIES)
def test_embeddings_in_the_plane(name: str) -> None:
    net = make(name, dim=2).eval()
    with torch.no_grad():
        assert net(images_for(net, 1)).shape == (1, 2)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cnn4", {"input_size": (28, 28), "channels": 1, "dim": 2}),
        ("lenet", {"input_size": (28, 28), "channels": 1, "dim": 2}),
        ("lightcnn9", {"input_size": (128, 128), "channels": 1, "dim": 256}),
        ("sfnet20", {"input_size": (112, 96)}),
        ("resnet28", {"input_size": (112, 96)}),
        ("iresnet18", {"input_size": (112, 112)}),
        ("resnet50", {"input_size": (256, 128), "dim": 2048, "last_stride": 1, "bnneck": True}),
        ("mobilefacenet", {"input_size": [112, 112], "dim": 128}),
    ],
)
def test_the_settings_of_the_papers_run(name: str, arguments: dict[str, Any]) -> None:
    net = create_backbone(name, **arguments).eval()
    with torch.no_grad():
        out = net(images_for(net, 1))
    assert out.shape == (1, arguments.get("dim", 512))
    assert out.isfinite().all()
    assert net.input_size == tuple(arguments["input_size"])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_least_size_is_the_least(name: str) -> None:
    least = BACKBONES[name].least_size
    with torch.device("meta"):
        net = create_backbone(name, input_size=(least, least))
        x = torch.empty(2, 3, least, least)
    for stage in net.stages():
        for layer in stage:
            x = x if isinstance(layer, nn.AdaptiveAvgPool2d) else layer(x)
    assert x.shape[2:] == (1, 1)
    with pytest.raises(ValueError, match=f"{least}x{least - 1} is too small for {name}: it takes {least}x{least} or"):
        create_backbone(name, input_size=(least, least - 1))


@pytest.mark.parametrize("name", FAMILIES)
def test_eval_repeats_itself_changes_nothing_and_treats_every_image_alone(name: str) -> None:
    net = make(name).eval()
    images = images_for(net, 4)
    before = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        first, second, alone = net(images), net(images), net(images[2:3])
    assert first.equal(second)
    torch.testing.assert_close(first[2:3], alone, rtol=1e-4, atol=1e-5)
    assert all(value.equal(before[key]) for key, value in net.state_dict().items())
    assert not first[0].allclose(first[1])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_state_dict_is_all_of_it(name: str) -> None:
    net, other = make(name, seed=0), make(name, seed=1)
    images = images_for(net)
    with torch.no_grad():
        net.train()(images)
        other.load_state_dict(net.state_dict())
        assert net.eval()(images).equal(other.eval()(images))


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in FAMILIES if name not in ("iresnet18", "resnet50")]
    + [("sfnet10", {"batch_norm": True}), ("iresnet18", {"dropout": 0.4}), ("resnet50", {"bnneck": True})],
)
def test_checkpointing_changes_no_number(name: str, options: dict[str, Any]) -> None:
    plain = make(name, **options).train()
    thrifty = make(name, checkpointing=True, **options).train()
    images = images_for(plain)
    for _ in range(2):
        outputs = []
        for net in (plain, thrifty):
            torch.manual_seed(7)
            outputs.append(step(net, images))
        assert outputs[0].equal(outputs[1])
    for (key, one), other in zip(plain.named_parameters(), thrifty.parameters(), strict=True):
        assert one.grad is other.grad or one.grad.equal(other.grad), key  # type: ignore[arg-type]
    for (key, one), other in zip(plain.named_buffers(), thrifty.named_buffers(), strict=True):  # type: ignore[assignment]
        assert one.equal(other[1]), key
    counts = [buffer for key, buffer in thrifty.named_buffers() if key.endswith("num_batches_tracked")]
    assert all(count == 2 for count in counts)


def test_checkpointing_keeps_less() -> None:
    kept = []
    for checkpointing in (False, True):
        net = make("sfnet36", checkpointing=checkpointing)
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, sizes=sizes: (sizes.append(x.numel()), x)[1],  # type: ignore[misc]
            lambda x: x,
        ):
            net(images_for(net))
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 4


def test_checkpointing_leaves_the_buffers_in_place_when_the_backward_pass_fails() -> None:
    net = make("iresnet18", checkpointing=True).train()
    buffers = dict(net.named_buffers())
    out = net(images_for(net))
    handle = net.layer2[1].conv2.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("stop")))  # type: ignore[index]
    with pytest.raises(RuntimeError, match="stop"):
        out.sum().backward()
    handle.remove()
    assert all(buffer is buffers[key] for key, buffer in net.named_buffers())


def compare_compiled(eager: Backbone, net: Backbone) -> None:
    """One training step of both, the second compiled: values, gradients and running statistics."""
    images = images_for(net).to(next(net.parameters()).dtype)
    compiled = torch.compile(net.train(), backend="aot_eager", fullgraph=True)
    try:
        out = step(compiled, images)  # type: ignore[arg-type]
    finally:
        torch.compiler.reset()
    torch.testing.assert_close(out, step(eager.train(), images), rtol=1e-3, atol=1e-4)
    for (key, one), other in zip(eager.named_parameters(), net.parameters(), strict=True):
        if one.grad is not None:
            near = 1e-3 * float(one.grad.abs().max())
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=near, msg=lambda m, k=key: f"{k}: {m}")  # type: ignore[misc]
    for (key, one), other in zip(eager.named_buffers(), net.buffers(), strict=True):  # type: ignore[assignment]
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4, msg=lambda m, k=key: f"{k}: {m}")  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "shorter", "checkpointing"),
    [
        ("sfnet10", {"units": (0, 1, 0, 0)}, False),
        ("iresnet18", {"blocks": (1, 1, 1, 1)}, True),
        ("lightcnn29", {"units": (1, 0, 0, 0)}, True),
        ("resnet18_cifar", {"blocks": (1, 1, 1, 1)}, False),
        ("cnn4", {}, True),
    ],
)
def test_compiles_without_a_break(name: str, shorter: dict[str, Any], checkpointing: bool) -> None:
    entry = type("Shorter", (BACKBONES[name],), shorter)
    nets = []
    for switch in (False, checkpointing):
        torch.manual_seed(0)
        nets.append(entry(dim=8, input_size=(32, 32), checkpointing=switch))
    compare_compiled(*nets)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sfnet64", "iresnet50", "mobilefacenet", "resnet50", "resnet28"])
def test_compiles_at_full_length(name: str) -> None:
    """In float64: of fifty layers and three images, float32 keeps no digit of a gradient."""
    compare_compiled(make(name).double(), make(name, checkpointing=True).double())


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_net_names_a_wrong_shape() -> None:
    net = torch.compile(make("cnn4"), backend="aot_eager")
    with pytest.raises(ValueError, match=r"\(2, 1, 32, 32\); this cnn4 was made for \(N, 3, 32, 32\)"):
        net(torch.zeros(2, 1, 32, 32))
    torch.compiler.reset()


@pytest.mark.parametrize("name", FAMILIES)
def test_channels_last_is_the_same_net(name: str) -> None:
    net, other = make(name).eval(), make(name).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = images_for(net)
    with torch.no_grad():
        x = images.to(memory_format=torch.channels_last)
        out = net(images)
        torch.testing.assert_close(other(x), out, rtol=1e-4, atol=1e-5 * float(out.abs().max()))
        for stage in other.stages()[:2]:
            x = run(stage, x)
            assert x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", FAMILIES)
def test_bf16_autocast_gives_float32_embeddings(name: str) -> None:
    net = make(name, checkpointing=name in ("sfnet10", "iresnet18")).eval()
    images = images_for(net)
    with torch.no_grad():
        exact = net(images)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            near = net(images)
            halves = run(net.stages()[0], images)
    assert halves.dtype == torch.bfloat16
    assert near.dtype == torch.float32
    assert torch.cosine_similarity(near.flatten(), exact.flatten(), dim=0) > 0.99
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = step(net.train(), images)
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() and p.grad.dtype == p.dtype for p in net.parameters() if p.requires_grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_net_of_another_dtype_stays_in_it(name: str, dtype: torch.dtype) -> None:
    net = make(name).eval().to(dtype)
    with torch.no_grad():
        out = net(images_for(net).to(dtype))
    assert out.dtype == dtype
    assert out.isfinite().all()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_patch_is_a_crop_of_the_images(name: str) -> None:
    """The same weights as those of a net that is given the crop itself."""
    tall, wide = (48, 48) if name == "resnet28" else (32, 32)
    whole = make(name, input_size=(tall + 8, wide + 4), patch=[5, tall + 5, 1, wide + 1]).eval()
    part = make(name, input_size=(tall, wide)).eval()
    part.load_state_dict(whole.state_dict())
    images = images_for(whole)
    with torch.no_grad():
        torch.testing.assert_close(whole(images), part(images[:, :, 5 : tall + 5, 1 : wide + 1].contiguous()))
        assert not torch.equal(whole(images), whole(images.flip(2)))
        outside = images.clone()
        outside[:, :, :5] = 9.0
        assert torch.equal(whole(outside), whole(images))


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([0, 41, 0, 32], "must lie in the images: 0 <= top < bottom <= 40"),
        ([8, 8, 0, 32], "must lie in the images"),
        ([0, 32, 0], "must be four integers"),
        ([0, 32.0, 0, 32], "must be four integers"),
        ([0, 12, 0, 32], "patch=12x32 is too small for sfnet10"),
    ],
)
def test_a_patch_outside_the_images_is_refused(patch: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("sfnet10", input_size=(40, 40), patch=patch)


@pytest.mark.parametrize("name", FAMILIES)
def test_last_relu(name: str) -> None:
    net, rectified = make(name).eval(), make(name, last_relu=True).eval()
    images = images_for(net, 8)
    with torch.no_grad():
        out = net(images)
        assert rectified(images).equal(out.clamp(min=0))
    assert (out < 0).any()


@pytest.mark.parametrize("name", ["cnn4", "sfnet10", "resnet50"])
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 1, 32, 32), r"images have shape \(2, 1, 32, 32\); this \w+ was made for \(N, 3, 32, 32\)"),
        ((2, 3, 32, 31), r"\(2, 3, 32, 31\)"),
        ((3, 32, 32), r"\(3, 32, 32\)"),
    ],
)
def test_images_of_another_shape(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(name)(torch.zeros(shape))


def test_images_that_are_no_floating_tensor() -> None:
    net = make("cnn4")
    with pytest.raises(ValueError, match=r"images must be a floating tensor, not torch\.uint8"):
        net(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
    with pytest.raises(ValueError, match="not list"):
        net([[0.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "sfnet21"}, "unknown backbone 'sfnet21'; did you mean 'sfnet20'"),
        ({"name": "sfnet20", "batchnorm": True}, "sfnet20 has no option 'batchnorm'; did you mean 'batch_norm'"),
        ({"name": "mobilefacenet", "bias": False}, "mobilefacenet has no option 'bias'; Known: width"),
        ({"name": "resnet18_cifar", "blocks": (1, 1, 1, 1)}, "resnet18_cifar has no option 'blocks'"),
        ({"name": "cnn4", "dim": 0}, "dim=0 must be an integer of at least 1"),
        ({"name": "cnn4", "dim": 2.0}, r"dim=2\.0 must be an integer"),
        ({"name": "cnn4", "channels": True}, "channels=True must be an integer"),
        ({"name": "cnn4", "input_size": 112}, "input_size=112 must be two integers"),
        ({"name": "cnn4", "input_size": (112,)}, "must be two integers"),
        ({"name": "cnn4", "input_size": "ab"}, "must be two integers"),
        ({"name": "cnn4", "input_size": (28, -28)}, "input_size=-28 must be an integer of at least 1"),
        ({"name": "iresnet18", "dropout": 1.5}, r"dropout=1\.5 must be between 0 and 1"),
        ({"name": "resnet50", "last_stride": 3}, "last_stride=3 must be 1 or 2"),
        ({"name": "resnet50", "projection": False}, "dim=512 needs a projection: .* resnet50 are 2048 wide"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_backbone(**arguments)
