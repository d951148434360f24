"""YuNet and SCRFD by files made here, whose outputs are written down, and files that are neither."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.recognition import Scrfd, YuNet, load_detector
from tests.recognition.drawn import drawn_photo

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

SIDE = 64
STRIDES = (8, 16, 32)


def write_network(path: Path, outputs: dict[str, Any], size: tuple[Any, ...] = (1, 3, SIDE, SIDE)) -> Path:
    """A network that gives the same outputs for every image, but for a black one: then all are 0."""
    nodes = [
        helper.make_node("ReduceMax", ["image"], ["most"], keepdims=0),
        helper.make_node("Clip", ["most", "zero", "one"], ["part"]),
        helper.make_node("Ceil", ["part"], ["lit"]),
    ]
    constants = [
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("zero", 0), ("one", 1))
    ]
    for name, values in outputs.items():
        constants.append(numpy_helper.from_array(np.asarray(values, np.float32), f"{name} constant"))
        nodes.append(helper.make_node("Mul", [f"{name} constant", "lit"], [name]))
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, np.shape(each)) for name, each in outputs.items()]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, size)
    graph = helper.make_graph(nodes, "made up", [image], shapes, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def yunet_outputs() -> dict[str, Any]:
    """One face at the place (16, 24) of stride 8, a weaker copy beside it, and one at (32, 0) of stride 32."""
    made = {
        f"{kind}_{stride}": np.zeros((1, (SIDE // stride) ** 2, width), np.float32)
        for kind, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10))
        for stride in STRIDES
    }
    for stride, place, judged, found in ((8, 3 * 8 + 2, 0.9, 0.4), (8, 3 * 8 + 3, 0.8, 0.4), (32, 1, 1.0, 1.2)):
        made[f"cls_{stride}"][0, place] = judged
        made[f"obj_{stride}"][0, place] = found
        made[f"bbox_{stride}"][0, place] = (0.5 if place % 2 == 0 else -0.5, 0.25, np.log(3.0), np.log(2.0))
        made[f"kps_{stride}"][0, place] = np.arange(10) / 4
    return made


def scrfd_outputs(anchors: int = 2) -> dict[str, Any]:
    """One face at the second anchor of (40, 8) of stride 8."""
    made = {
        f"{width}-{stride}": np.zeros((anchors * (SIDE // stride) ** 2, width), np.float32)
        for width in (1, 4, 10)
        for stride in STRIDES
    }
    place = anchors * (8 + 5) + anchors - 1
    made["1-8"][place], made["4-8"][place], made["10-8"][place] = 0.75, (1, 0.5, 2, 3), np.arange(10) / 8
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


def test_yunet_is_decoded(folder: Path) -> None:
    detector = load_detector(write_network(folder / "yunet.onnx", yunet_outputs()), threads=1, score=0.5)
    assert isinstance(detector, YuNet)
    found = detector([drawn_photo((SIDE, SIDE), ((32, 32, 20),)), np.zeros((8, 8, 3), np.uint8)])
    assert found[1] == []
    sure, other = found[0]
    assert sure.score == pytest.approx(1.0)
    np.testing.assert_allclose(sure.box, (32 - 16 - 48, 8 - 32, 32 - 16 + 48, 8 + 32), atol=1e-4)
    assert other.score == pytest.approx(np.sqrt(0.9 * 0.4))
    np.testing.assert_allclose(other.box, (20 - 12, 26 - 8, 20 + 12, 26 + 8), atol=1e-4)
    np.testing.assert_allclose(other.landmarks, np.array([16, 24]) + 2 * np.arange(10).reshape(5, 2), atol=1e-4)


def test_a_photo_of_another_size_is_scaled_into_the_square(folder: Path) -> None:
    """A pixel's centre at 63.5 of 64 is one at 127.5 of 128: places are counted from the middle of a pixel."""
    detector = load_detector(write_network(folder / "yunet-2.onnx", yunet_outputs()), threads=1, score=0.99)
    ((small,), (large,)) = detector(
        [np.full((SIDE, SIDE, 3), 99, np.uint8), np.full((2 * SIDE, SIDE, 3), 99, np.uint8)]
    )
    np.testing.assert_allclose(large.landmarks + 0.5, 2 * (small.landmarks + 0.5), rtol=1e-5)
    np.testing.assert_allclose(np.array(large.box) + 0.5, 2 * (np.array(small.box) + 0.5), rtol=1e-5)


@pytest.mark.parametrize("anchors", [1, 2])
def test_scrfd_is_decoded(folder: Path, anchors: int) -> None:
    detector = load_detector(write_network(folder / f"scrfd-{anchors}.onnx", scrfd_outputs(anchors)), threads=1)
    assert isinstance(detector, Scrfd)
    ((face,),) = detector([np.full((SIDE, SIDE, 3), 200, np.uint8)])
    assert face.score == pytest.approx(0.75)
    np.testing.assert_allclose(face.box, (40 - 8, 8 - 4, 40 + 16, 8 + 24), atol=1e-4)
    np.testing.assert_allclose(face.landmarks, np.array([40, 8]) + np.arange(10).reshape(5, 2), atol=1e-4)


def test_pixels_are_prepared_as_each_network_reads_them(folder: Path) -> None:
    square = np.arange(12, dtype=np.float32).reshape(3, 2, 2) * 20
    yunet = load_detector(write_network(folder / "yunet-3.onnx", yunet_outputs()))
    scrfd = load_detector(write_network(folder / "scrfd-3.onnx", scrfd_outputs()))
    assert isinstance(yunet, YuNet)
    assert isinstance(scrfd, Scrfd)
    np.testing.assert_array_equal(yunet.prepared(square), square[[2, 1, 0]])
    np.testing.assert_allclose(scrfd.prepared(square), (square - 127.5) / 128)


def test_a_free_size_is_640(folder: Path) -> None:
    free = write_network(folder / "free.onnx", yunet_outputs(), (1, 3, "height", "width"))
    assert load_detector(free).size == (640, 640)  # type: ignore[attr-defined]


def refused() -> dict[str, tuple[dict[str, Any], tuple[Any, ...], str]]:
    scrfd, yunet = scrfd_outputs(), yunet_outputs()
    without = {name: each for name, each in scrfd.items() if not name.startswith("10-")}
    return {
        "embedder": ({"embedding": np.zeros((1, 128))}, (1, 3, 112, 112), "this file has embedding"),
        "no-landmarks": (without, (1, 3, SIDE, SIDE), "SCRFD without landmarks"),
        "grey": (yunet, (1, 1, SIDE, SIDE), "no detector that is known"),
        "odd": (yunet, (1, 3, 50, 50), "multiples of 32"),
        "two": (yunet, (2, 3, SIDE, SIDE), "two.onnx: its batch is fixed to 2 images"),
        "huge": (yunet, (1, 3, 4096, 4096), "huge.onnx: its input is 4096x4096 pixels; .* up to 2048"),
        "none": (yunet, (1, 3, 0, 0), "none.onnx: .*(0x0 pixels|onnxruntime)"),
        "fewer": ({name: yunet[name] for name in list(yunet)[:-1]}, (1, 3, SIDE, SIDE), "no detector that is known"),
    }


@pytest.mark.parametrize("name", ["embedder", "no-landmarks", "grey", "odd", "two", "huge", "none", "fewer"])
def test_a_file_of_another_kind_is_refused_in_a_sentence(folder: Path, name: str) -> None:
    outputs, size, words = refused()[name]
    with pytest.raises(ValueError, match=words):
        load_detector(write_network(folder / f"{name}.onnx", outputs, size))


def test_scrfd_whose_outputs_do_not_fit_its_grid_is_refused(folder: Path) -> None:
    outputs = scrfd_outputs()
    outputs["4-8"] = outputs["4-8"][:-3]
    detector = load_detector(write_network(folder / "short.onnx", outputs))
    with pytest.raises(
        ValueError,
        match=r"short.onnx: its output '4-8' is \(125, 4\); expected 4 numbers for each of the 64 places of stride 8",
    ):
        detector([drawn_photo()])


@pytest.mark.parametrize("name", ["cls_8", "bbox_8", "kps_8"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_face_that_is_not_finite_is_an_error(folder: Path, name: str, number: float) -> None:
    """A box of NaN was handed on as a face; a score of NaN was no face."""
    outputs = yunet_outputs()
    outputs[name][0, 3 * 8 + 2] = number
    detector = load_detector(write_network(folder / "wild.onnx", outputs), threads=1, score=0.5)
    if name == "cls_8" and number == np.inf:
        assert len(detector([drawn_photo()])[0]) == 2  # it counts as 1
        return
    with pytest.raises(ValueError, match=r"wild\.onnx: gave a face whose score, box or landmarks are not finite"):
        detector([drawn_photo()])


def test_outputs_that_do_not_fit_the_places_are_refused_by_name(folder: Path) -> None:
    outputs, others = yunet_outputs(), scrfd_outputs()
    outputs["obj_16"] = outputs["obj_16"][:, :-1]
    others["10-16"] = np.concatenate([others["10-16"]] * 2)
    for made, message in (
        (outputs, "its output 'obj_16' is"),
        (others, "its outputs of stride 16 have unequal numbers"),
    ):
        detector = load_detector(write_network(folder / "unfit.onnx", made))
        with pytest.raises(ValueError, match=rf"unfit\.onnx: {message}"):
            detector([drawn_photo()])


def test_what_is_no_network_is_refused(folder: Path) -> None:
    (folder / "noise.onnx").write_bytes(b"noise")
    with pytest.raises(ValueError, match="not an ONNX network"):
        load_detector(folder / "noise.onnx")
    with pytest.raises(ValueError, match="there is no such file"):
        load_detector(folder / "missing.onnx")
    with pytest.raises(ValueError, match="neither mtcnn, yunet nor an .onnx file"):
        load_detector("retinaface")
    with pytest.raises(ValueError, match="score"):
        load_detector(write_network(folder / "again.onnx", yunet_outputs()), score=2)
