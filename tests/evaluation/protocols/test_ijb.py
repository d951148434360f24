import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import interp1d
from sklearn.metrics import roc_curve as sklearn_roc

from hypersphere.evaluation import Embeddings, NotMeasurable, roc_curve
from hypersphere.evaluation.protocols.ijb.protocol import PRESETS, IjbOptions, read_ijb
from hypersphere.evaluation.protocols.ijb.template_pairs import score_template_pairs
from hypersphere.evaluation.protocols.legacy import TAR_RULES, tar_by_rule
from hypersphere.evaluation.protocols.templates import Pooling
from tests.evaluation.protocols.loops import accepted_at, open_set, unit
from tests.evaluation.protocols.official import write_ijb

Standin = tuple[Path, Embeddings]
FARS, FPIRS = [1e-1, 1e-2], [1e-1, 2e-1]


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Standin:
    folder = tmp_path_factory.mktemp("ijb") / "meta"
    return folder, write_ijb(folder)


def words(path: Path, separator: str | None = None) -> list[list[str]]:
    return [line.split(separator) for line in path.read_text().splitlines()]


def pooled(folder: Path, embeddings: Embeddings, pooling: Pooling) -> dict[int, np.ndarray]:
    """Template by template, medium by medium, image by image."""
    detector = {row[0]: float(row[-1]) for row in words(folder / "ijbc_name_5pts_score.txt")}
    found: dict[int, dict[int, list[np.ndarray]]] = {}
    for name, template, medium in words(folder / "ijbc_face_tid_mid.txt"):
        row = embeddings.of([name])[0].astype(np.float64)
        half = len(row) // 2
        merged = {
            "given": row,
            "first": row[:half],
            "sum": row[:half] + row[half:],
            "mean": (row[:half] + row[half:]) / 2,
        }
        vector = merged[pooling.flip]
        if not pooling.keep_norm:
            vector = unit(vector)
        if pooling.detector_score:
            vector = vector * detector[name]
        place = 0 if pooling.media == "none" else int(medium)
        found.setdefault(int(template), {}).setdefault(place, []).append(vector)
    templates = {}
    for template, media in found.items():  # type: ignore[assignment]
        means = [sum(images) / len(images) for images in media.values()]
        if pooling.media == "unit":
            means = [unit(mean) for mean in means]  # type: ignore[arg-type]
        templates[template] = unit(sum(means))  # type: ignore[arg-type]
    return templates  # type: ignore[return-value]


def scored(folder: Path, templates: dict[int, np.ndarray]) -> tuple[list[float], list[float]]:
    genuine: list[float] = []
    impostors: list[float] = []
    for left, right, label in words(folder / "ijbc_template_pair_label.txt"):
        score = float(templates[int(left)] @ templates[int(right)])
        (genuine if label == "1" else impostors).append(score)
    return genuine, impostors


def listed(path: Path) -> list[tuple[int, int]]:
    return list(dict.fromkeys((int(row[0]), int(row[1])) for row in words(path, ",")[1:]))


POOLINGS = [
    Pooling(),
    Pooling(flip="sum"),
    Pooling(flip="first", keep_norm=False),
    Pooling(flip="mean", detector_score=False, media="unit"),
    Pooling(media="none", keep_norm=False, detector_score=False),
]


@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_verification_is_that_of_plain_loops(standin: Standin, pooling: Pooling) -> None:
    folder, embeddings = standin
    result = read_ijb(folder).evaluate(embeddings, options=IjbOptions(pooling=pooling), tasks=["1:1"], fars=FARS)
    genuine, impostors = scored(folder, pooled(folder, embeddings, pooling))
    for far, name in zip(FARS, ("1e-1", "1e-2"), strict=True):
        estimate = result.metrics[f"tar@far={name}"]
        assert estimate.value == float(accepted_at(genuine, impostors, far))
        assert estimate.low < estimate.value < estimate.high
    assert 0.1 < result.metrics["tar@far=1e-2"].value < 0.9
    assert result.options["pooling"] == dataclasses.asdict(pooling)
    np.testing.assert_allclose(np.sort(result.items["genuine_scores"]), sorted(genuine), atol=1e-6)


def test_official_identification_is_that_of_plain_loops(standin: Standin) -> None:
    folder, embeddings = standin
    result = read_ijb(folder).evaluate(embeddings, tasks=["1:N"], fpirs=FPIRS)
    templates = pooled(folder, embeddings, Pooling())
    probes = listed(folder / "ijbc_1N_probe_mixed.csv")
    rates: dict[float, list[float]] = {fpir: [] for fpir in FPIRS}
    hits = {1: 0, 5: 0, 10: 0}
    for name in ("G1", "G2"):
        gallery = listed(folder / f"ijbc_1N_gallery_{name}.csv")
        entries, people = [templates[t] for t, _ in gallery], [s for _, s in gallery]
        for fpir in FPIRS:
            share = open_set([templates[t] for t, _ in probes], [s for _, s in probes], entries, people, fpir)
            rates[fpir].append(float(share))
        for template, subject in probes:
            if subject in people:
                scores = [float(templates[template] @ entry) for entry in entries]
                rank = 1 + sum(score > scores[people.index(subject)] for score in scores)
                for depth in hits:
                    hits[depth] += rank <= depth
    for fpir, name in zip(FPIRS, ("1e-1", "2e-1"), strict=True):
        estimate = result.metrics[f"tpir@fpir={name}"]
        assert list(result.details[f"tpir@fpir={name}"].values()) == rates[fpir]
        assert estimate.value == pytest.approx(sum(rates[fpir]) / 2, abs=1e-12)
        assert estimate.low < estimate.value < estimate.high
        assert 0.1 < estimate.value < 0.95
    for depth, count in hits.items():
        assert result.metrics[f"rank-{depth}"].value == count / len(probes)
    assert result.cmc["1:N"][[0, 4, 9]].tolist() == [count / len(probes) for count in hits.values()]


def test_merged_identification_is_that_of_plain_loops(standin: Standin) -> None:
    folder, embeddings = standin
    options = IjbOptions(search="merged")
    result = read_ijb(folder).evaluate(embeddings, options=options, tasks=["1:N"], fpirs=FPIRS)
    templates = pooled(folder, embeddings, Pooling())
    probes = listed(folder / "ijbc_1N_probe_mixed.csv")
    gallery = listed(folder / "ijbc_1N_gallery_G1.csv") + listed(folder / "ijbc_1N_gallery_G2.csv")
    own, others, first = [], [], 0  # type: ignore[var-annotated]
    for template, subject in probes:
        scores = {other: float(templates[template] @ templates[entry]) for entry, other in gallery}
        own.append(scores.pop(subject))
        others += scores.values()
        first += own[-1] > max(scores.values())
    for fpir, name in zip(FPIRS, ("1e-1", "2e-1"), strict=True):
        threshold = sorted(others, reverse=True)[math.ceil(fpir * len(probes)) - 1]
        wanted = sum(score > threshold for score in own) / len(own)
        assert result.metrics[f"merged_tpir@fpir={name}"].value == wanted
    assert result.metrics["merged_rank-1"].value == first / len(probes)
    assert not any(name.startswith(("tpir", "rank")) for name in result.metrics)


def test_the_definitions_differ_and_both_can_be_asked_for(standin: Standin) -> None:
    folder, embeddings = standin
    result = read_ijb(folder).evaluate(embeddings, options=IjbOptions(search="both"), fpirs=FPIRS)
    assert result.metrics["tpir@fpir=1e-1"].value != result.metrics["merged_tpir@fpir=1e-1"].value
    assert result.counts["pairs"] == 24 * 72
    assert result.counts["probes"] == 72


@pytest.mark.parametrize(
    ("name", "flip", "norm", "detector"),
    [("arcface_torch", "sum", True, True), ("adaface", "sum", True, False), ("opensphere", "mean", True, False)],
)
def test_presets_give_what_their_authors_compute(
    standin: Standin, name: str, flip: str, norm: bool, detector: bool
) -> None:
    folder, embeddings = standin
    result = read_ijb(folder).evaluate(embeddings, options=name, fars=FARS, fpirs=FPIRS)
    templates = pooled(folder, embeddings, Pooling(flip=flip, keep_norm=norm, detector_score=detector))
    genuine, impostors = scored(folder, templates)
    fpr, tpr, _ = sklearn_roc([1] * len(genuine) + [0] * len(impostors), genuine + impostors)
    for far, label in zip(FARS, ("1e-1", "1e-2"), strict=True):
        if name == "opensphere":
            wanted = float(interp1d(fpr, tpr)(far))
        else:
            wanted = tpr[::-1][np.argmin(np.abs(fpr[::-1] - far))]
        assert result.metrics[f"tar@far={label}"].value == pytest.approx(wanted, abs=1e-12)
    assert "merged_tpir@fpir=1e-1" in result.metrics
    assert PRESETS[name].pooling.flip == flip


def test_tar_rules_are_those_of_the_peers() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for seed in range(60):
        count = int(rng.integers(4, 60))
        scores, same = rng.permutation(count) / count, rng.random(count) < 0.5
        same[:2] = True, False
        roc = roc_curve(scores, same)
        fpr, tpr, _ = sklearn_roc(same, scores)
        for far in (0.01, 0.1, 0.25, 0.5, 1 / max(1, (~same).sum()), float(rng.random())):
            nearest = tpr[::-1][np.argmin(np.abs(fpr[::-1] - far))]
            assert tar_by_rule(roc, far, "nearest") == pytest.approx(nearest), (seed, far)
            assert tar_by_rule(roc, far, "interpolated") == pytest.approx(float(interp1d(fpr, tpr)(far))), (seed, far)
            seen.add(tar_by_rule(roc, far, "nearest") > tar_by_rule(roc, far, "at_most"))
    assert seen == {True, False}


@pytest.mark.parametrize("rule", TAR_RULES)
def test_intervals_of_every_rule_draw_templates(standin: Standin, rule: str) -> None:
    folder, embeddings = standin
    result = read_ijb(folder).evaluate(embeddings, options=IjbOptions(tar_rule=rule), tasks=["1:1"], fars=[0.07])
    roc, scores, owners = result.curves["1:1"], *(result.items[f"genuine_{name}"] for name in ("scores", "templates"))
    estimate = result.metrics["tar@far=7e-2"]
    assert estimate.value == pytest.approx(tar_by_rule(roc, 0.07, rule))
    assert estimate.interval == result.metrics["fnmr@fmr=7e-2"].interval == "bootstrap over subjects"
    if rule == "interpolated":
        right = int(np.searchsorted(roc.far, 0.07))
        share = (0.07 - roc.far[right - 1]) / (roc.far[right] - roc.far[right - 1])
        shares = [(1 - share, roc.thresholds[right - 1]), (share, roc.thresholds[right])]
    else:
        level = sorted((float(score) for score in scores), reverse=True)[round(estimate.value * len(scores)) - 1]
        shares = [(1.0, level)]
    each = [sum(weight for weight, threshold in shares if score >= threshold) for score in scores.tolist()]
    different, draws, means = sorted(set(owners.tolist())), np.random.default_rng(0), []
    for _ in range(1000):
        drawn = draws.integers(len(different), size=len(different)).tolist()
        times = {owner: drawn.count(place) for place, owner in enumerate(different)}
        weights = [times[owner] for owner in owners.tolist()]
        means.append(sum(w * e for w, e in zip(weights, each, strict=True)) / sum(weights))
    low, high = np.percentile(means, [2.5, 97.5])
    assert (estimate.low, estimate.high) == pytest.approx((min(low, estimate.value), max(high, estimate.value)))


def test_scores_of_few_and_of_many_pairs_are_the_same() -> None:
    rng = np.random.default_rng(1)
    units = rng.normal(size=(600, 8)).astype(np.float32)
    left = rng.integers(0, 300, 3000).astype(np.int32)
    right = rng.integers(300, 600, 3000).astype(np.int32)
    wanted = np.einsum("ij,ij->i", units[left].astype(np.float64), units[right])
    for count in (3000, 40, 20_000):
        chosen = rng.integers(0, 3000, count)
        found = np.full(count, np.nan)
        for part, scores in score_template_pairs(units, left[chosen], right[chosen]):
            assert np.isnan(found[part]).all()
            found[part] = scores
        np.testing.assert_allclose(found, wanted[chosen], atol=1e-5)


def test_ijbb_has_other_names_of_galleries(tmp_path: Path) -> None:
    embeddings = write_ijb(tmp_path, "ijbb")
    protocol = read_ijb(tmp_path, "ijbb")
    assert list(protocol.galleries) == ["S1", "S2"]
    assert "rank-1" in protocol.evaluate(embeddings, tasks=["1:N"]).metrics


def test_parts_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    embeddings = write_ijb(tmp_path)
    (tmp_path / "ijbc_name_5pts_score.txt").unlink()
    (tmp_path / "ijbc_1N_probe_mixed.csv").unlink()
    protocol = read_ijb(tmp_path)
    assert protocol.tasks == ("1:1",)
    with pytest.raises(ValueError, match="detector_score=True needs the list"):
        protocol.evaluate(embeddings)
    options = IjbOptions(pooling=Pooling(detector_score=False))
    result = protocol.evaluate(embeddings, options=options)
    assert result.metrics["tar@far=1e-3"] == NotMeasurable(1656, 3000)
    assert result.metrics["fnmr@fmr=1e-3"] == NotMeasurable(1656, 3000)
    with pytest.raises(ValueError, match="tasks='1:N' is unknown"):
        protocol.evaluate(embeddings, options=options, tasks=["1:N"])
    with pytest.raises(ValueError, match="options='arcface' is unknown; did you mean 'adaface'|'arcface_torch'"):
        protocol.evaluate(embeddings, options="arcface")
    (tmp_path / "ijbc_template_pair_label.txt").unlink()
    with pytest.raises(ValueError, match="neither ijbc_template_pair_label.txt nor ijbc_1N_probe_mixed.csv"):
        read_ijb(tmp_path)


def test_a_search_that_accepts_everything_is_refused(standin: Standin) -> None:
    folder, embeddings = standin
    with pytest.raises(ValueError, match="fpir=1 must be below 1, where everything is accepted"):
        read_ijb(folder).evaluate(embeddings, tasks=["1:N"], fpirs=[0.5, 1])


def test_missing_images_are_refused_or_counted(standin: Standin) -> None:
    folder, embeddings = standin
    gone = {"1.jpg", "2.jpg", "3.jpg", "13.jpg"}
    kept = [k for k, name in enumerate(embeddings.names) if name not in gone]
    fewer = Embeddings([embeddings.names[k] for k in kept], embeddings.values[kept])
    protocol = read_ijb(folder)
    with pytest.raises(
        ValueError, match=r"tid_mid.txt, line 1: '1.jpg' has no embedding, and 4 of 288 images have none"
    ):
        protocol.evaluate(fewer)
    result = protocol.evaluate(fewer, allow_missing=True)
    counts = result.counts
    assert (counts["missing_images"], counts["templates_without_image"], counts["pairs_left_out"]) == (4, 1, 72)
    assert counts["probes_left_out"] == 3


def test_templates_without_media_are_left_out_if_allowed(tmp_path: Path) -> None:
    embeddings = write_ijb(tmp_path)
    plain = read_ijb(tmp_path).evaluate(embeddings, fars=FARS, fpirs=FPIRS)
    pairs, probes = tmp_path / "ijbc_template_pair_label.txt", tmp_path / "ijbc_1N_probe_mixed.csv"
    pairs.write_text(pairs.read_text() + "999 25 0\n1 998 1\n")
    probes.write_text(probes.read_text() + "997,100,x\n26,101,y\n")
    gallery = tmp_path / "ijbc_1N_gallery_G1.csv"
    gallery.write_text(gallery.read_text() + "996,777,x\n")
    with pytest.raises(ValueError, match=r"line 1729: template 999 has no media; .*--allow-missing"):
        read_ijb(tmp_path)
    protocol = read_ijb(tmp_path, allow_missing=True)
    with pytest.raises(ValueError, match=r"label.txt: 2 templates have no media, first 998; allow_missing"):
        protocol.evaluate(embeddings)
    result = protocol.evaluate(embeddings, fars=FARS, fpirs=FPIRS, allow_missing=True)
    assert result.metrics == plain.metrics
    counts = result.counts
    assert (counts["templates_without_media"], counts["pairs_left_out"], counts["probes_left_out"]) == (4, 2, 1)
    assert result.left_out["templates_without_media"] == ["996", "997", "998", "999"]


def test_probes_without_a_mate_are_left_out_if_allowed(tmp_path: Path) -> None:
    embeddings = write_ijb(tmp_path)
    gallery = tmp_path / "ijbc_1N_gallery_G1.csv"
    lines = gallery.read_text().splitlines()
    gallery.write_text("\n".join(line for line in lines if not line.startswith("1,")))
    with pytest.raises(ValueError, match="subject 100 has no template in any gallery; 3 probes have no mate"):
        read_ijb(tmp_path)
    result = read_ijb(tmp_path, allow_missing=True).evaluate(embeddings, tasks=["1:N"], allow_missing=True)
    assert (result.counts["probes_without_mate"], result.counts["probes_left_out"]) == (3, 3)
    assert result.metrics["rank-1"].n == 69
    lines = [lines[0], "996,777,x"]
    gallery.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"G1.csv: no template has an image left"):
        read_ijb(tmp_path, allow_missing=True).evaluate(embeddings, tasks=["1:N"], allow_missing=True)


def test_pairs_of_one_kind_are_too_few(standin: Standin) -> None:
    folder, embeddings = standin
    one_person = [k for k, name in enumerate(embeddings.names) if int(name.partition(".")[0]) <= 12]
    few = Embeddings([embeddings.names[k] for k in one_person], embeddings.values[one_person])
    with pytest.raises(ValueError, match=r"label.txt: 3 of 1,728 pairs have images left, all of one kind"):
        read_ijb(folder).evaluate(few, tasks=["1:1"], allow_missing=True)


def test_mirror_images_are_not_merged_twice(standin: Standin) -> None:
    folder, embeddings = standin
    half = embeddings.dim // 2
    summed = embeddings.values[:, :half] + embeddings.values[:, half:]
    protocol = read_ijb(folder)
    wanted = protocol.evaluate(embeddings, options="arcface_torch", fars=FARS, fpirs=FPIRS)

    def made(flip: str, values: np.ndarray) -> Embeddings:
        return Embeddings(embeddings.names, values, {"contract": {"flip": flip}})

    for given in (made("concat", embeddings.values), made("sum", summed)):
        found = protocol.evaluate(given, options="arcface_torch", fars=FARS, fpirs=FPIRS)
        assert found.metrics["tar@far=1e-2"] == wanted.metrics["tar@far=1e-2"]
        assert found.options["pooling"]["flip"] == "sum"
    with pytest.raises(ValueError, match="made with flip='none'; flip='sum' needs those of image and mirror image"):
        protocol.evaluate(made("none", summed), options="arcface_torch")


def test_odd_dimensions_have_no_halves(standin: Standin) -> None:
    folder, embeddings = standin
    odd = Embeddings(embeddings.names, embeddings.values[:, :9])
    with pytest.raises(ValueError, match="dimension 9; flip='sum' needs two equal halves"):
        read_ijb(folder).evaluate(odd, options="arcface_torch")


@pytest.mark.parametrize(
    ("file", "line", "text", "message"),
    [
        ("face_tid_mid.txt", 2, "2.jpg 1", "line 2: 2 fields; expected image, template, medium"),
        ("face_tid_mid.txt", 2, "2.jpg one 9", "line 2: the template 'one' is not an integer"),
        ("face_tid_mid.txt", 2, "1.jpg 1 9", "line 2: '1.jpg' was on line 1 already"),
        ("name_5pts_score.txt", 3, "4.jpg" + " 1" * 11, "line 3: '4.jpg'; .* has '3.jpg' here, .* in one order"),
        ("name_5pts_score.txt", 3, "3.jpg" + " 1" * 10 + " nan", "line 3: score 'nan' is not a finite number"),
        (
            "name_5pts_score.txt",
            3,
            "3.jpg" + " 1" * 10 + " 1e308",
            "line 3: score '1e308' is not a finite number of at",
        ),
        ("name_5pts_score.txt", 3, "3.jpg 1", "line 3: 2 fields"),
        ("template_pair_label.txt", 7, "1 999 0", "line 7: template 999 has no media"),
        ("face_tid_mid.txt", 2, "2.jpg -1 9", "line 2: the template -1 is out of range"),
        ("template_pair_label.txt", 7, "1 -3 0", "line 7: template -3; numbers count from 0"),
        ("template_pair_label.txt", 7, "1 30 2", "line 7: label 2; expected 0 or 1"),
        ("template_pair_label.txt", 7, "1 1 1", "line 7: template 1 is paired with itself"),
        ("template_pair_label.txt", 7, "1 30", "line 7: 2 fields; expected template, template, label"),
        ("template_pair_label.txt", 7, "1 x 0", "line 7: the template 'x' is not an integer"),
        ("template_pair_label.txt", 7, "25 1 0", "line 7: templates 25 and 1 have label 1 and label 0"),
        ("1N_probe_mixed.csv", 1, "25,100,x", "line 1: the header is"),
        ("1N_probe_mixed.csv", 2, "999,100,x", "line 2: template 999 has no media"),
        ("1N_probe_mixed.csv", 3, "25,101,x", "line 3: template 25 is subject 101, but on line 2 subject 100"),
        ("1N_probe_mixed.csv", 2, "1,999,x", "line 2: subject 999 has no template in any gallery; 1 probes have no"),
        ("1N_gallery_G2.csv", 2, "50,100,x", "G2.csv, line 2: subject 100 was enrolled in .*G1.csv, line 2"),
        ("1N_gallery_G2.csv", 2, "50", "line 2: 1 field"),
    ],
)
def test_wrong_lines_are_refused(tmp_path: Path, file: str, line: int, text: str, message: str) -> None:
    write_ijb(tmp_path)
    path = tmp_path / f"ijbc_{file}"
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        read_ijb(tmp_path)


def test_repeated_pairs_and_other_spacing_are_read(tmp_path: Path) -> None:
    write_ijb(tmp_path)
    path = tmp_path / "ijbc_template_pair_label.txt"
    plain = read_ijb(tmp_path).pairs
    path.write_text("\n" + path.read_text().replace(" ", "\t ").replace("\n", "\r\n") + "1\t26 0")
    spaced = read_ijb(tmp_path).pairs
    assert plain is not None
    assert spaced is not None
    assert (plain.repeated, spaced.repeated) == (0, 1)
    assert plain.left.tolist() == spaced.left[:-1].tolist()
    assert plain.same.tolist() == spaced.same[:-1].tolist()


def test_lists_that_end_early_are_refused(tmp_path: Path) -> None:
    write_ijb(tmp_path)
    path = tmp_path / "ijbc_name_5pts_score.txt"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))
    with pytest.raises(ValueError, match="ends before '288.jpg'"):
        read_ijb(tmp_path)
    with pytest.raises(ValueError, match="there is no such file"):
        read_ijb(tmp_path, "ijbb")
