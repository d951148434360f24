"""The nets are the papers': layers, published parameter counts, first weights, and the options of each family."""

import inspect
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hypersphere.backbones import BACKBONES, Backbone, create_backbone, list_backbones, resnet

PAGE = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text()


def plan(name: str, **arguments: Any) -> Backbone:
    """The net without its memory."""
    with torch.device("meta"):
        return create_backbone(name, **arguments)


def count(net: nn.Module, kind: type[nn.Module] | tuple[type[nn.Module], ...] = nn.Module) -> int:
    modules = [module for module in net.modules() if isinstance(module, kind)]
    return sum(parameter.numel() for module in modules for parameter in module.parameters(recurse=False))


def convolutions(net: nn.Module) -> Iterator[tuple[str, nn.Conv2d]]:
    """Without the 1x1 projections of shortcuts, which no paper counts."""
    for key, module in net.named_modules():
        if isinstance(module, nn.Conv2d) and "downsample" not in key:
            yield key, module


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        *((f"sfnet{depth}", depth) for depth in (4, 10, 20, 36, 64)),  # SphereFace Table 2 counts convolutions
        *((f"iresnet{depth}", depth - 1) for depth in (18, 34, 50, 100)),  # and FC
        ("lightcnn9", 9),
        ("lightcnn29", 29),
        ("resnet28", 27),  # and FC
        ("resnet10_cifar", 9),  # and the classifier
        ("resnet18_cifar", 17),  # and the classifier, as in He et al.
        ("resnet34_cifar", 33),
        ("resnet50", 49),
        ("cnn4", 2),  # and FC and the classifier
    ],
)
def test_the_number_in_the_name_counts_the_layers(name: str, layers: int) -> None:
    assert len(list(convolutions(plan(name)))) == layers


@pytest.mark.parametrize("batch_norm", [False, True])
def test_sfnet_is_table_2(batch_norm: bool) -> None:
    net = plan("sfnet36", batch_norm=batch_norm)
    shapes = [(conv.out_channels, conv.stride[0], conv.kernel_size) for _, conv in convolutions(net)]
    expected = []
    for width, units in ((64, 2), (128, 4), (256, 8), (512, 2)):
        expected += [(width, 2, (3, 3)), *[(width, 1, (3, 3))] * (2 * units)]
    assert shapes == expected
    assert len([m for m in net.modules() if isinstance(m, nn.PReLU)]) == 36
    assert len([m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]) == 36 * batch_norm
    assert not any(isinstance(module, nn.ReLU) for module in net.modules())


def test_parameters_of_iresnet() -> None:
    """InsightFace's IResNets at 112x112, dim 512: 24.0M, 34.1M, 43.6M, 65.2M."""
    published = {"iresnet18": 24.0, "iresnet34": 34.1, "iresnet50": 43.6, "iresnet100": 65.2}
    assert {name: round(count(plan(name)) / 1e6, 1) for name in published} == published


def test_parameters_of_sfnet20() -> None:
    """The released SphereFace-20 (112x96, fc5 of 512): 22.671M in Open Model Zoo's `Sphereface`.

    That counts the biases in residual units too, which the released solver holds at zero.
    """
    net = plan("sfnet20", input_size=(112, 96))
    frozen = sum(conv.out_channels for _, conv in convolutions(net) if conv.bias is None)
    assert round((count(net) + frozen) / 1e6, 3) == 22.671


@pytest.mark.parametrize(("name", "published"), [("lightcnn9", 5556), ("lightcnn29", 12637)])
def test_parameters_of_lightcnn(name: str, published: int) -> None:
    """Light CNN Tables 2 and 3: 5,556K and 12,637K weights, of 128x128 grey images to 256 numbers.

    Both tables print conv2 with 165K = 9 x 96 x 192; its input has 48 maps, not 96, after max-feature-map. They add
    thousands rounded down, so up to 1K is lost in each row.
    """
    net = plan(name, dim=256, input_size=(128, 128), channels=1)
    weights = sum(parameter.numel() for parameter in net.parameters() if parameter.dim() > 1)
    excess = 9 * 96 * 192 - 9 * 48 * 192
    rows = len(list(convolutions(net))) + 1
    assert published <= (weights + excess) / 1000 < published + rows


def test_parameters_of_mobilefacenet() -> None:
    """MobileFaceNets Table 2: 0.99M at 128 numbers (0.993M in Open Model Zoo), with BatchNorm folded into biases."""
    net = plan("mobilefacenet", dim=128)
    biases = count(net, (nn.BatchNorm2d, nn.BatchNorm1d)) // 2
    assert round((count(net, (nn.Conv2d, nn.Linear, nn.PReLU)) + biases) / 1e6, 3) == 0.993


def test_a_wide_mobilefacenet_fits_in_four_megabytes() -> None:
    """Everything that is saved, in half precision; its channels are multiples of 8."""
    net = plan("mobilefacenet", dim=128, width=1.4)
    assert sum(value.numel() for value in net.parameters()) == 1_824_240
    assert 2 * sum(value.numel() for value in net.state_dict().values()) == 3_702_372
    assert {layer.out_channels for layer in net.modules() if isinstance(layer, nn.Conv2d)} == {88, 176, 352, 704, 720}
    assert count(plan("mobilefacenet", dim=128, width=1.0)) == count(plan("mobilefacenet", dim=128))
    for width in (0, 9, -1.0):
        with pytest.raises(ValueError, match="width"):
            plan("mobilefacenet", width=width)


def test_parameters_of_resnets() -> None:
    """torchvision's ResNet-50 has 25,557,032 with its classifier of 1000; the CIFAR ResNets of the widely used
    implementation 11,173,962 and 21,282,122 with one of 10."""
    assert count(plan("resnet50", dim=2048)) + 2048 * 1000 + 1000 == 25_557_032
    assert count(plan("resnet18_cifar")) + 512 * 10 + 10 == 11_173_962
    assert count(plan("resnet34_cifar")) + 512 * 10 + 10 == 21_282_122


def test_parameters_of_cnn4() -> None:
    """LM-Softmax App. C: Conv(1, 32, 3), BN, Conv(32, 64, 3), BN, Linear on 5x5 maps."""
    layers = (9 * 32 + 32) + 64 + (9 * 32 * 64 + 64) + 128 + (64 * 25 * 2 + 2)
    assert count(plan("cnn4", dim=2, input_size=(28, 28), channels=1)) == layers


def test_parameters_of_lenet() -> None:
    """Six layers of 3x3 with a PReLU per channel, and Linear on 3x3 maps."""
    convolved = sum(9 * i * o + o + o for i, o in ((1, 16), (16, 16), (16, 32), (32, 32), (32, 64), (64, 64)))
    assert count(plan("lenet", dim=2, input_size=(28, 28), channels=1)) == convolved + 64 * 9 * 2 + 2


def test_a_lenet_may_start_above_zero() -> None:
    torch.manual_seed(0)
    net = create_backbone("lenet", dim=2, input_size=(28, 28), channels=1, first_bias=2.0).eval()
    with torch.no_grad():
        assert (net(0.2 * torch.rand(50, 1, 28, 28)) > 0).all()


def test_parameters_of_resnet28() -> None:
    """Wen et al.'s released net: 112x96 ends in 512 maps of 5x4."""
    net = plan("resnet28", input_size=(112, 96))
    assert net.fc.in_features == 512 * 5 * 4
    assert [conv.padding[0] for _, conv in convolutions(net)].count(0) == 5


def test_the_page_tells_layers_and_counts() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (\d+)[^|]*\| ([\d,]+) \|[^|]*\|$", PAGE, flags=re.MULTILINE)
    nets = {name: plan(name) for name in list_backbones()}
    assert {name: (int(layers), int(number.replace(",", ""))) for name, layers, number in rows} == {
        name: (len(list(convolutions(net))), count(net)) for name, net in nets.items()
    }


def test_the_page_tells_every_option() -> None:
    rows = re.findall(r"^\| `(\w+)=([^`]*)` \| ([^|]*) \|", PAGE, flags=re.MULTILINE)
    told = {(family, option, default) for option, default, nets in rows for family in nets.split(", ") if nets != "all"}
    actual = set()
    for name in list_backbones():
        for option in inspect.signature(BACKBONES[name]).parameters.values():
            if option.kind is option.KEYWORD_ONLY:
                family = name if name.startswith("resnet") else name.rstrip("0123456789")
                actual.add(("cnn4" if family == "cnn" else family, option.name, str(option.default)))
    assert told == actual


def spread(weight: torch.Tensor) -> tuple[float, float]:
    return float(weight.detach().mean()), float(weight.detach().std())


@pytest.mark.parametrize(("name", "size"), [("sfnet20", (32, 32)), ("resnet28", (64, 64))])
def test_face_residual_nets_start_as_released(name: str, size: tuple[int, int]) -> None:
    """Caffe's xavier (variance 1 / fan-in, uniform) for plain layers, N(0, 0.01) in residual units, PReLU 0.25."""
    torch.manual_seed(0)
    net = create_backbone(name, input_size=size, bias=True)
    plain = [conv for _, conv in convolutions(net) if conv.bias is not None]
    residual = [conv for _, conv in convolutions(net) if conv.bias is None]
    assert len(plain) == (4 if name == "sfnet20" else 5)
    for layer in [*plain, net.fc]:
        fan_in = layer.weight[0].numel()  # type: ignore[index]
        mean, std = spread(layer.weight)  # type: ignore[arg-type]
        assert std == pytest.approx(fan_in**-0.5, rel=0.05)
        assert abs(mean) < 0.1 * std
        assert float(layer.weight.detach().abs().max()) <= (3 / fan_in) ** 0.5
        assert not layer.bias.any()
    for layer in residual:
        mean, std = spread(layer.weight)
        assert std == pytest.approx(0.01, rel=0.02)
        assert abs(mean) < 2e-4
        assert float(layer.weight.detach().abs().max()) > 0.03
    assert all((module.weight == 0.25).all() for module in net.modules() if isinstance(module, nn.PReLU))


def test_iresnet_starts_as_the_field_does() -> None:
    torch.manual_seed(0)
    net = create_backbone("iresnet18", input_size=(32, 32))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            assert spread(module.weight)[1] == pytest.approx(0.1, rel=0.05)
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert not module.bias.any()


def test_lightcnn_starts_as_released() -> None:
    """Caffe's xavier and biases 0.1; residual units as torch's convolutions, of variance 1 / (3 fan-in)."""
    torch.manual_seed(0)
    net = create_backbone("lightcnn29", input_size=(32, 32))
    for key, module in net.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            residual = ".body." in key
            variance = 1 / module.weight[0].numel() / (3 if residual else 1)
            assert spread(module.weight)[1] == pytest.approx(variance**0.5, rel=0.05)
            assert bool((module.bias == 0.1).all()) is not residual


def test_resnet_starts_by_he() -> None:
    torch.manual_seed(0)
    net = create_backbone("resnet18_cifar", input_size=(32, 32))
    for _, conv in convolutions(net):
        fan_out = conv.out_channels * math.prod(conv.kernel_size)
        assert spread(conv.weight)[1] == pytest.approx((2 / fan_out) ** 0.5, rel=0.05)


@pytest.mark.parametrize("name", ["sfnet64", "iresnet50", "resnet28", "lightcnn29", "mobilefacenet"])
def test_signals_neither_vanish_nor_explode_at_the_start(name: str) -> None:
    torch.manual_seed(0)
    net = create_backbone(name, dim=64, input_size=(64, 64)).train()
    out = net(torch.randn(2, 3, 64, 64))
    assert 1e-2 < float(out.detach().square().mean().sqrt()) < 1e2


@pytest.mark.parametrize("name", ["sfnet4", "resnet28", "iresnet18", "lightcnn9", "cnn4"])
def test_bias_is_that_of_the_last_layer(name: str) -> None:
    plain, bare = plan(name), plan(name, bias=False)
    missing = set(plain.state_dict()) - set(bare.state_dict())
    assert missing == {"fc.bias"}


def test_iresnet_is_named_as_published_weights_are() -> None:
    keys = set(plan("iresnet18").state_dict())
    norms = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    expected = {"conv1.weight", "prelu.weight", "fc.weight", "fc.bias"}
    expected |= {f"{norm}.{part}" for norm in ("bn1", "bn2", "features") for part in norms}
    for layer in range(1, 5):
        for block in range(2):
            stem = f"layer{layer}.{block}"
            expected |= {f"{stem}.{part}.weight" for part in ("conv1", "conv2", "prelu")}
            expected |= {f"{stem}.bn{number}.{part}" for number in (1, 2, 3) for part in norms}
        expected |= {f"layer{layer}.0.downsample.0.weight"}
        expected |= {f"layer{layer}.0.downsample.1.{part}" for part in norms}
    assert keys == expected


def test_resnet50_takes_imagenet_weights() -> None:
    """A state dict of torchvision's names: all but the classifier finds its place."""
    net = plan("resnet50", dim=2048, last_stride=1, bnneck=True)
    published = {key: value for key, value in net.state_dict().items() if not key.startswith("bnneck")}
    assert len(published) + 2 == 320  # ResNet-50 has 320 entries, two of them its classifier's
    assert {"conv1.weight", "bn1.running_var", "layer1.0.downsample.1.bias", "layer4.2.conv3.weight"} <= set(published)
    published |= {"fc.weight": torch.empty(1000, 2048, device="meta"), "fc.bias": torch.empty(1000, device="meta")}
    keys = net.load_state_dict(published, strict=False, assign=True)
    assert all(key.startswith("bnneck") for key in keys.missing_keys)
    assert set(keys.unexpected_keys) == {"fc.weight", "fc.bias"}


def test_iresnet_holds_the_scale_of_its_features() -> None:
    net = create_backbone("iresnet18", dim=16, input_size=(32, 32)).train()
    assert not net.features.weight.requires_grad
    assert net.features.bias.requires_grad
    out = net(torch.randn(16, 3, 32, 32)).detach()
    torch.testing.assert_close(out.mean(0), torch.zeros(16), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.std(0, correction=0), torch.ones(16), atol=1e-3, rtol=0)


def test_dropout_acts_in_training_alone() -> None:
    for name in ("iresnet18", "lightcnn9", "resnet28"):
        torch.manual_seed(0)
        net = create_backbone(name, dim=64, input_size=(48, 48), dropout=0.5)
        images = torch.randn(4, 3, 48, 48)
        with torch.no_grad():
            assert not net.train()(images).equal(net(images))
            assert net.eval()(images).equal(net(images))


def test_bnneck_is_a_batch_norm_without_bias() -> None:
    torch.manual_seed(0)
    net = create_backbone("resnet50", dim=2048, input_size=(64, 32), last_stride=1, bnneck=True).train()
    assert not net.bnneck.bias.requires_grad
    assert net.bnneck.weight.requires_grad
    out = net(torch.randn(4, 3, 64, 32)).detach()
    assert float(out.mean(0).abs().max()) < 1e-4


@pytest.mark.parametrize(
    ("name", "dim", "last_relu"),
    [("resnet50", 2048, False), ("resnet50", 16, True), ("cnn4", 16, False), ("sfnet4", 16, False)],
)
def test_features_before_the_neck(name: str, dim: int, last_relu: bool) -> None:
    """The neck of the features is the embedding, and one pass gives both."""
    torch.manual_seed(0)
    net = create_backbone(name, dim=dim, input_size=(64, 32), bnneck=True, last_relu=last_relu).train()
    images = torch.randn(4, 3, 64, 32)
    embeddings, features = net(images, before_neck=True)
    assert embeddings.shape == features.shape == (4, dim)
    deviation = (features.var(0, correction=0) + net.bnneck.eps).sqrt()
    expected = (features - features.mean(0)) / deviation
    torch.testing.assert_close(embeddings, expected.relu() if last_relu else expected, rtol=1e-3, atol=1e-3)
    assert net.bnneck.num_batches_tracked == 1
    if dim == 2048:
        assert features.detach().min() >= 0
    features.sum().backward()
    assert net.bnneck.weight.grad is None
    assert next(net.parameters()).grad is not None
    with torch.no_grad():
        embeddings, features = net.eval()(images, before_neck=True)
        assert net(images).equal(embeddings)
        assert net(images, before_neck=False).equal(embeddings)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert {out.dtype for out in net(images, before_neck=True)} == {torch.float32}


def test_before_neck_needs_a_neck() -> None:
    net = create_backbone("resnet50", dim=8, input_size=(32, 32))
    with pytest.raises(ValueError, match="before_neck=True needs a neck: make this resnet50 with bnneck=True"):
        net(torch.zeros(2, 3, 32, 32), before_neck=True)


@pytest.mark.filterwarnings("ignore")
def test_before_neck_compiles_without_a_break(monkeypatch: pytest.MonkeyPatch) -> None:
    short = resnet._layer
    monkeypatch.setattr(
        resnet, "_layer", lambda block, inputs, width, _, stride: short(block, inputs, width, 1, stride)
    )
    torch.manual_seed(0)
    net = create_backbone("resnet50", dim=8, input_size=(32, 32), bnneck=True).eval()
    images = torch.randn(2, 3, 32, 32)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    try:
        with torch.no_grad():
            for ours, theirs in zip(compiled(images, before_neck=True), net(images, before_neck=True), strict=True):
                torch.testing.assert_close(ours, theirs)
    finally:
        torch.compiler.reset()


def test_last_stride_1_keeps_a_larger_map() -> None:
    sizes = []
    for last_stride in (1, 2):
        net = plan("resnet50", dim=2048, input_size=(256, 128), last_stride=last_stride)
        x = torch.empty(1, 3, 256, 128, device="meta")
        for layers in net.stages():
            for layer in layers:
                x = x if isinstance(layer, nn.AdaptiveAvgPool2d) else layer(x)
        sizes.append(tuple(x.shape[2:]))
    assert sizes == [(16, 8), (8, 4)]


@pytest.mark.parametrize(("name", "width"), [("resnet10_cifar", 256), ("resnet18_cifar", 512), ("resnet50", 2048)])
def test_pooled_features_are_the_embedding_where_dim_is_their_width(name: str, width: int) -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 3, 32, 32)
    for projection in (None, True):
        net = create_backbone(name, dim=width, input_size=(32, 32), projection=projection).eval()
        with torch.no_grad():
            assert bool((net(images) >= 0).all()) is (projection is None)


def test_max_feature_map() -> None:
    net = create_backbone("lightcnn9", dim=2, input_size=(32, 32)).eval()
    x = torch.randn(2, 6, 4, 4)
    assert net.mfm(x).equal(torch.where(x[:, :3] > x[:, 3:], x[:, :3], x[:, 3:]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sfnet36", "resnet28", "iresnet18", "lightcnn29", "mobilefacenet", "cnn4", "resnet18_cifar", "resnet50"]
)
def test_a_few_images_can_be_learned(name: str) -> None:
    torch.manual_seed(0)
    net = create_backbone(name, dim=8, input_size=(48, 48)).train()
    images, labels = nn.functional.interpolate(torch.randn(8, 3, 4, 4), size=(48, 48)), torch.arange(8)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    losses = []
    for _ in range(15):
        loss = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
