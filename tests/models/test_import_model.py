"""Others' weights: each layout has their key names and shapes, and computes what their network computes."""

import dataclasses
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch
from torch import Tensor

from hypersphere.backbones import create_backbone
from hypersphere.models import PRESETS, Contract, import_model, import_prototypes, load_model, load_prototypes
from hypersphere.models.import_layouts import LAYOUTS
from hypersphere.training.checkpoints import load_weights
from tests.models import peers
from tests.models.networks import linear_onnx
from tests.mutate import attempt, mutations

State = dict[str, Tensor]
Shapes = list[tuple[str, tuple[int, ...]]]
Run = Callable[[State, Tensor], Tensor]


def plain(state: State) -> object:
    return OrderedDict(state)


def data_parallel(state: State) -> object:
    return {f"module.{name}": value for name, value in state.items()}


def checkpoint_gpu(state: State) -> object:
    return {
        "epoch": 3,
        "global_step": 9,
        "state_dict_backbone": state,
        "state_dict_softmax_fc": {"weight": torch.ones(4, 8)},
    }


def lightning(state: State) -> object:
    weights = {f"model.{name}": value for name, value in state.items()}
    return {"epoch": 25, "state_dict": {**weights, "head.kernel": torch.ones(8, 4), "head.t": torch.zeros(1)}}


def cvlface(state: State) -> object:
    return {f"net.{name}": value for name, value in state.items()}


def opensphere(state: State) -> object:
    return {"backbone": state, "head": {"w": torch.ones(4, 8), "b": torch.zeros(1)}}


def opensphere_checkpoint(state: State) -> object:
    return {"step": 5, "model": opensphere(state), "optimizer": {"state": {}, "param_groups": []}}


def opensphere_old(state: State) -> object:
    return {"backbone": data_parallel(state), "head": {"module.w": torch.ones(8, 4)}}


CASES: list[tuple[str, Shapes, Run, Callable[[State], object], str]] = [
    ("arcface-torch", list(peers.iresnet(18, 8)), peers.run_iresnet, plain, "iresnet18"),
    ("arcface-torch", list(peers.iresnet(18, 8)), peers.run_iresnet, data_parallel, "iresnet18"),
    ("arcface-torch", list(peers.iresnet(34, 8)), peers.run_iresnet, checkpoint_gpu, "iresnet34"),
    ("adaface", list(peers.ir(18, 8)), peers.run_ir, lightning, "iresnet18"),
    ("cvlface", list(peers.ir(18, 8)), peers.run_ir, cvlface, "iresnet18"),
    ("cvlface", list(peers.iresnet(18, 8)), peers.run_iresnet, cvlface, "iresnet18"),
    ("opensphere", list(peers.sfnet(20, batch_norm=False, dim=8)), peers.run_sfnet, opensphere, "sfnet20"),
    ("opensphere", list(peers.sfnet(20, batch_norm=True, dim=8)), peers.run_sfnet, opensphere_checkpoint, "sfnet20"),
    (
        "opensphere",
        list(peers.sfnet(10, batch_norm=False, older=True, dim=8)),
        peers.run_sfnet,
        opensphere_old,
        "sfnet10",
    ),
    ("opensphere", list(peers.iresnet(18, 8)), peers.run_iresnet, opensphere, "iresnet18"),
    ("sphereface-pytorch", list(peers.sphere20a(8)), peers.run_sphere20a, plain, "sfnet20"),
]


@pytest.mark.parametrize(("preset", "shapes", "run", "wrapped", "backbone"), CASES)
def test_the_model_computes_what_theirs_does(
    tmp_path: Path,
    preset: str,
    shapes: Shapes,
    run: Run,
    wrapped: Callable[[State], object],
    backbone: str,
) -> None:
    state = peers.filled(shapes)
    torch.save(wrapped(state), tmp_path / "theirs.pth")
    contract = PRESETS[preset]
    found = import_model(tmp_path / "theirs.pth", tmp_path / "ours.safetensors", contract)
    assert found.contract == dataclasses.replace(contract, dim=8, backbone=backbone, digest=found.contract.digest)
    model = load_model(tmp_path / "ours.safetensors").with_flip("none")
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (1, 3, *contract.input_size), dtype=np.uint8))
    ordered = images.flip(1) if contract.colour == "bgr" else images
    x = (ordered.double() - contract.mean[0]) / contract.std[0]
    wanted = run({name: value.double() for name, value in state.items()}, x)
    with torch.no_grad():
        given = model.network(model.prepare(images)).double()
    assert wanted.abs().max() > 0.1
    torch.testing.assert_close(given / wanted.norm(), wanted / wanted.norm(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "backbone"),
    [
        (list(peers.iresnet(50)), "iresnet50"),
        (list(peers.iresnet(100)), "iresnet100"),
        (list(peers.ir(50)), "iresnet50"),
        (list(peers.ir(100)), "iresnet100"),
        (list(peers.sfnet(4, batch_norm=True)), "sfnet4"),
        (list(peers.sfnet(36, batch_norm=False)), "sfnet36"),
        (list(peers.sfnet(64, batch_norm=True)), "sfnet64"),
    ],
)
def test_every_name_and_shape_of_the_larger_ones_is_mapped(shapes: Shapes, backbone: str) -> None:
    state = {name: torch.empty(shape, device="meta") for name, shape in shapes if "tracked" not in name}
    _, change = next(LAYOUTS[key] for key in LAYOUTS if key in state)
    mapped = change(state)
    assert not state
    with torch.device("meta"):
        made = create_backbone(dim=512, **mapped.backbone).state_dict()
    assert mapped.backbone["name"] == backbone
    wanted = {name: value.shape for name, value in made.items() if "tracked" not in name}
    assert {name: value.shape for name, value in mapped.state.items()} == wanted


def test_files_of_other_kinds(tmp_path: Path) -> None:
    state = peers.filled(peers.iresnet(18, 8))
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    half = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    safetensors.torch.save_file(half, tmp_path / "half.safetensors")
    contract = PRESETS["arcface-torch"]
    old, small = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    assert import_model(tmp_path / "old.pth", old, contract).left_out == ()
    import_model(tmp_path / "half.safetensors", small, contract)
    images = torch.zeros(1, 3, 112, 112, dtype=torch.uint8)
    one, two = (load_model(path) for path in (old, small))
    with torch.no_grad():
        torch.testing.assert_close(
            one.network(one.prepare(images)), two.network(two.prepare(images)), rtol=0.02, atol=0.02
        )


def without(state: State, *names: str) -> State:
    return {name: value for name, value in state.items() if name not in names}


@pytest.fixture(scope="module")
def arcface() -> State:
    return peers.filled(peers.iresnet(18, 8))


def test_other_networks_are_refused_by_their_first_odd_key(tmp_path: Path, arcface: State) -> None:
    path, out = tmp_path / "theirs.pth", tmp_path / "ours.safetensors"
    se = peers.filled(peers.ir(18, 8)) | {"body.0.res_layer.se_block.fc1.weight": torch.ones(4, 64, 1, 1)}
    for content, message in (
        ({"patch_embed.proj.weight": torch.ones(2)}, r"first key is 'patch_embed\.proj\.weight'; no layout"),
        (se, r"AdaFace or CVLface, but 'body\.0\.res_layer\.se_block\.fc1\.weight' is in no block of iresnet18"),
        ({**arcface, "extra.weight": torch.ones(1)}, r"'extra\.weight' is in no block of iresnet18"),
        ({**arcface, "layer1.0.conv3.weight": torch.ones(1)}, r"'layer1\.0\.conv3\.weight' is in no block"),
        (without(arcface, "bn2.weight"), r"nothing in it is 'bn2\.weight' of iresnet18"),
        (without(arcface, "fc.weight"), "no last linear layer"),
        (
            {**arcface, "conv1.weight": torch.ones(64, 1, 3, 3)},
            r"'conv1\.weight' is \(64, 1, 3, 3\); iresnet18 for 112x112",
        ),
        ({**arcface, "layer3.9.bn1.weight": torch.ones(1)}, r"stages have \(2, 2, 10, 2\) blocks; known are iresnet"),
        (torch.ones(3), "expected weights by name, a state dict; found Tensor"),
        ({"conv1.weight": "text"}, "'conv1.weight' is no tensor"),
        ({}, "has no weights"),
        ({"layer1.0.downsample.0.weight": torch.tensor(1.0)}, "stages have"),
    ):
        torch.save(content, path)
        with pytest.raises(ValueError, match=rf"theirs\.pth.*{message}"):
            import_model(path, out, PRESETS["arcface-torch"])
    torch.save(arcface, path)
    with pytest.raises(ValueError, match=r"'fc\.weight' is \(8, 25088\); iresnet18 for 96x112 rgb .* \(8, 21504\)"):
        import_model(path, out, Contract(input_size=(112, 96)))
    with pytest.raises(ValueError, match=r"a model file ends in \.safetensors"):
        import_model(path, tmp_path / "ours.pth", PRESETS["arcface-torch"])
    with pytest.raises(ValueError, match="nowhere.pth: there is no such file"):
        import_model(tmp_path / "nowhere.pth", out, PRESETS["arcface-torch"])
    assert not out.exists()


class Settings:
    """An object that a file may hold."""


def test_what_holds_more_than_tensors_is_not_loaded(tmp_path: Path) -> None:
    path, out = tmp_path / "theirs.ckpt", tmp_path / "ours.safetensors"
    torch.save({"state_dict": {}, "hyper_parameters": Settings()}, path)
    with pytest.raises(ValueError, match=r"theirs\.ckpt: holds \S*\.Settings beside .*run code"):
        import_model(path, out, PRESETS["adaface"])
    path.write_bytes(b"nothing of torch")
    with pytest.raises(ValueError, match=r"theirs\.ckpt: no file of weights .*cut short"):
        import_model(path, out, PRESETS["adaface"])


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch, of quantized and nested tensors
def test_weights_that_are_not_plain_numbers_are_refused(tmp_path: Path) -> None:
    path, out = tmp_path / "theirs.pth", tmp_path / "ours.safetensors"
    ones = torch.ones(4, 4)
    for value, message in (
        (torch.zeros(1).half().expand(10**9), r"is expanded: \(1000000000,\) of torch\.float16 from 2 bytes"),
        (torch.zeros(1).expand(2 * 10**5, 10**5), r"is expanded: \(200000, 100000\)"),
        (ones.to_sparse(), "is sparse_coo; expected a dense tensor"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "is nested"),
        (torch.empty(10**11, device="meta"), r"has no numbers \(device meta\)"),
        (torch.quantize_per_tensor(ones, 0.1, 0, torch.qint8), r"is quantized \(torch\.qint8\)"),
        (torch.full((64,), torch.nan), "has 64 numbers that are NaN or infinite"),
        (torch.tensor([1.0, -torch.inf]).half(), "has 1 numbers that are NaN or infinite"),
        (torch.full((3,), torch.nan).to(torch.float8_e4m3fn), "has 3 numbers that are NaN"),
        (torch.ones(64, dtype=torch.int64), r"is of torch\.int64; expected floating point"),
        (torch.ones(64, dtype=torch.complex64), r"is of torch\.complex64"),
    ):
        torch.save({"bn2.weight": value}, path)
        with pytest.raises(ValueError, match=rf"theirs\.pth: 'bn2\.weight' {message}"):
            import_model(path, out, PRESETS["arcface-torch"])
        if value.layout == torch.strided and value.is_floating_point() and not value.is_nested:
            with pytest.raises(ValueError, match=rf"theirs\.pth: 'bn2\.weight' {message}"):
                load_weights(path)
    safetensors.torch.save_file({"bn2.weight": torch.full((64,), torch.nan)}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"a\.safetensors: 'bn2\.weight' has 64 numbers that are NaN"):
        import_model(tmp_path / "a.safetensors", out, PRESETS["arcface-torch"])
    for name, wrong in (("rank_0_softmax_weight.pt", torch.zeros(1).half().expand(10**6, 512)), ("b.pt", ones / 0)):
        torch.save(wrong, tmp_path / name)
        with pytest.raises(ValueError, match=rf"{name}: 'weight' (is expanded|has 16 numbers)"):
            import_prototypes(tmp_path / name, out)
    assert not out.exists()


def test_pickles_that_ask_for_more_than_the_file_has_are_refused(tmp_path: Path) -> None:
    path, out = tmp_path / "theirs.pth", tmp_path / "ours.safetensors"
    torch.save({"a": torch.zeros(4)}, path, _use_new_zipfile_serialization=False)
    old = path.read_bytes()
    place = old.index(b"K\x04", old.index(b"cpu"))
    path.write_bytes(old[:place] + b"\x8a\x05" + (20 * 10**9).to_bytes(5, "little") + old[place + 2 :])
    with pytest.raises(ValueError, match=r"theirs\.pth: .* states a storage of 20,000,000,000 numbers, but has"):
        import_model(path, out, PRESETS["arcface-torch"])
    path.write_bytes(b"\x80\x02X" + (2 * 10**9).to_bytes(4, "little") + b"weights.")
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"theirs\.pth: no file of weights .*only 8 remain"):
        import_model(path, out, PRESETS["arcface-torch"])
    assert tracemalloc.get_traced_memory()[1] < 10**8
    tracemalloc.stop()
    torch.save({"a": torch.zeros(4)}, path)
    asking = b"\x80\x02}X\x01\0\0\0acbuiltins\nbytearray\n\x8a\x05" + (8 * 10**9).to_bytes(5, "little") + b"\x85Rs."
    with zipfile.ZipFile(path) as sound:
        contents = {name: sound.read(name) for name in sound.namelist()}
    with zipfile.ZipFile(path, "w") as forged:
        for name, content in contents.items():
            forged.writestr(name, asking if name.endswith("data.pkl") else content)
    with pytest.raises(ValueError, match=r"theirs\.pth: .* holds a byte array"):
        import_model(path, out, PRESETS["arcface-torch"])


def test_onnx_weights_that_are_not_plain_numbers_are_refused(tmp_path: Path) -> None:
    path, out, contract = tmp_path / "theirs.onnx", tmp_path / "ours.onnx", Contract(input_size=(8, 8))
    linear_onnx(path)
    sound = onnx.load(path)
    whole = onnx.numpy_helper.to_array(sound.graph.initializer[0])

    def refused(model: onnx.ModelProto, message: str) -> None:
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ValueError, match=rf"theirs\.onnx: {message}"):
            import_model(path, out, contract)

    for number in (np.nan, np.inf):
        model = onnx.ModelProto.FromString(sound.SerializeToString())
        wrong = whole.copy()
        wrong[5, 2] = number
        model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(wrong, "weights"))
        refused(model, "'weights' has numbers that are NaN or infinite")
    model = onnx.ModelProto.FromString(sound.SerializeToString())
    values, indices = (onnx.numpy_helper.from_array(np.array([n]), name) for n, name in ((1.0, "thin"), (0, "places")))
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [10**6, 10**6]))
    refused(model, "'thin' is sparse")
    model = onnx.ModelProto.FromString(sound.SerializeToString())
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([20, 10**9]), "sides"))
    model.graph.node.insert(0, onnx.helper.make_node("ConstantOfShape", ["sides"], ["much"]))
    refused(model, r"'much' is \(20, 1000000000\), more than")
    model = onnx.ModelProto.FromString(sound.SerializeToString())
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    refused(model, "the weights 'weights' lie in another file")
    assert not out.exists()


def test_cut_and_mutated_files_are_refused_by_name(tmp_path: Path) -> None:
    path, out = tmp_path / "theirs.pth", tmp_path / "ours.safetensors"
    torch.save({name: torch.zeros(2) for name, _ in peers.sfnet(4, batch_norm=False)}, path)
    good = path.read_bytes()
    for data in [good[: len(good) * part // 7] for part in range(1, 7)] + list(mutations(good, 150, seed=3)):
        path.write_bytes(data)
        assert attempt(lambda each: import_model(each, out, PRESETS["opensphere"]), path) is None
    assert not out.exists()


def test_prototypes_of_all_processes(tmp_path: Path) -> None:
    rows = torch.randn(11, 8)
    for names, wrapped in (
        ("rank_{}_softmax_weight.pt", lambda part: part),
        ("softmax_fc_gpu_{}.pt", lambda part: {"weight": part}),
        ("checkpoint_gpu_{}.pt", lambda part: {"state_dict_backbone": {}, "state_dict_softmax_fc": {"weight": part}}),
    ):
        for rank, part in enumerate(rows.split([4, 4, 3])):
            torch.save(wrapped(part.clone()), tmp_path / names.format(rank))
        torch.save(torch.zeros(1), tmp_path / "rank_0_softmax_weight_mom.pt")
        out = tmp_path / "prototypes.safetensors"
        assert import_prototypes(tmp_path / names.format(1), out, replace=True) == (3, 11)
        torch.testing.assert_close(load_prototypes(out), rows, rtol=0, atol=0)
    first = tmp_path / "rank_0_softmax_weight.pt"
    torch.save(rows[:2], first)
    with pytest.raises(ValueError, match=r"3 processes have \(2, 8\), \(4, 8\), \(3, 8\), which is no even share"):
        import_prototypes(first, out, replace=True)
    (tmp_path / "rank_1_softmax_weight.pt").unlink()
    with pytest.raises(ValueError, match=r"rank_1_softmax_weight\.pt is missing: .* over 3 files"):
        import_prototypes(first, out, replace=True)
    torch.save({"text": 1}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"other\.pt: expected the \(classes, dim\) weights"):
        import_prototypes(tmp_path / "other.pt", out, replace=True)


def test_onnx_files_are_checked_and_get_their_contract(tmp_path: Path) -> None:
    linear_onnx(tmp_path / "theirs.onnx", batch=2)
    contract = Contract(input_size=(8, 8), colour="bgr", flip="sum")
    found = import_model(tmp_path / "theirs.onnx", tmp_path / "ours.onnx", contract)
    assert load_model(tmp_path / "ours.onnx").contract == found.contract
    assert (found.contract.dim, found.contract.flip) == (4, "sum")
    with pytest.raises(ValueError, match=r"ours\.onnx exists already"):
        import_model(tmp_path / "theirs.onnx", tmp_path / "ours.onnx", contract)
    with pytest.raises(ValueError, match=r"its images are \(3, 8, 8\)"):
        import_model(tmp_path / "theirs.onnx", tmp_path / "other.onnx", PRESETS["insightface"])
    with pytest.raises(ValueError, match=r"name OUT\.onnx"):
        import_model(tmp_path / "theirs.onnx", tmp_path / "ours.safetensors", contract)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours.contract.json", "ours.onnx", "theirs.onnx"]
