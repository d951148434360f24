"""The pairs that reports show are the worst there are."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hypersphere.data.formats.market import parse_name
from hypersphere.evaluation import Embeddings, ScoredPair
from hypersphere.evaluation.protocols import Classify, IjbOptions, read_blufr, read_ijb, read_reid, read_ytf
from hypersphere.evaluation.protocols.templates import Pooling
from hypersphere.evaluation.protocols.worst import SHOWN, HighestPairs
from tests.evaluation.protocols.loops import unit
from tests.evaluation.protocols.official import DIM, pocket_vectors, write_blufr, write_ijb, write_market, write_ytf


@given(st.lists(st.lists(st.integers(0, 5), max_size=9), max_size=6), st.integers(1, 4))
def test_the_highest_of_all_blocks_are_kept_in_order(blocks: list[list[int]], count: int) -> None:
    kept = HighestPairs(count)
    place = 0
    for block in blocks:
        rows = np.arange(place, place + len(block))
        kept.add(np.array(block, dtype=np.float32), rows, rows + 100)
        place += len(block)
    every = [score for block in blocks for score in block]
    wanted = sorted(range(len(every)), key=lambda k: (-every[k], k))[:count]
    assert kept.left.tolist() == wanted
    assert kept.right.tolist() == [k + 100 for k in wanted]
    assert [pair.score for pair in kept.pairs(str, -1)] == [-every[k] for k in wanted]


def test_a_table_gives_the_places_that_count() -> None:
    kept = HighestPairs(2)
    table = np.array([[1, 9, 3], [8, 2, 9]], dtype=np.float32)
    rows, columns = kept.among(table, table < 9)
    assert {(r, c) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)} == {(0, 2), (1, 0)}
    kept.add(table[rows, columns], rows, columns)
    assert [len(part) for part in kept.among(table, table < 3)] == [0, 0]


def close(found: list[ScoredPair], wanted: list[tuple[str, str, float]]) -> bool:
    return len(found) == len(wanted) and all(
        (pair.left, pair.right) == (left, right) and abs(pair.score - score) < 1e-5
        for pair, (left, right, score) in zip(found, wanted, strict=True)
    )


def test_blufr(tmp_path: Path) -> None:
    embeddings = write_blufr(tmp_path / "config.mat", people=40, each=4)
    protocol = read_blufr(tmp_path / "config.mat")
    worst = protocol.evaluate(embeddings, open_set_fars=[]).worst
    test = protocol.trials[0].test.tolist()
    vectors = {k: unit(embeddings.values[k]) for k in test}
    pairs = [(a, b, float(vectors[a] @ vectors[b])) for i, a in enumerate(test) for b in test[i + 1 :]]
    same = [(a, b, s) for a, b, s in pairs if protocol.labels[a] == protocol.labels[b]]
    other = [(a, b, s) for a, b, s in pairs if protocol.labels[a] != protocol.labels[b]]

    def named(rows: list[tuple[int, int, float]]) -> list[tuple[str, str, float]]:
        return [(protocol.names[a], protocol.names[b], s) for a, b, s in rows[:SHOWN]]

    assert close(worst["false matches"], named(sorted(other, key=lambda row: -row[2])))  # type: ignore[arg-type]
    assert close(worst["false non-matches"], named(sorted(same, key=lambda row: row[2])))  # type: ignore[arg-type]


def test_ijb(tmp_path: Path) -> None:
    embeddings = write_ijb(tmp_path)
    protocol = read_ijb(tmp_path)
    result = protocol.evaluate(embeddings, tasks=["1:1"])
    first: dict[int, str] = {}
    for name, template in zip(protocol.names, protocol.media.templates.tolist(), strict=True):
        first.setdefault(template, name)
    owner = {name: template for template, name in first.items()}
    lines = [line.split() for line in (tmp_path / "ijbc_template_pair_label.txt").read_text().splitlines()]
    truth = {(int(one), int(two)): int(label) for one, two, label in lines}
    found = result.worst
    for kind, label in (("false matches", 0), ("false non-matches", 1)):
        assert len(found[kind]) == SHOWN
        assert all(truth[owner[pair.left], owner[pair.right]] == label for pair in found[kind])
    lowest = np.sort(result.items["genuine_scores"])[:SHOWN]
    np.testing.assert_allclose([pair.score for pair in found["false non-matches"]], lowest)
    highest = [pair.score for pair in found["false matches"]]
    assert highest == sorted(highest, reverse=True)
    curve = result.curves["1:1"]
    assert curve.false_accepts[np.flatnonzero(curve.thresholds >= highest[-1])[-1]] <= SHOWN


def test_ijb_search(tmp_path: Path) -> None:
    embeddings = write_ijb(tmp_path)
    protocol = read_ijb(tmp_path)
    pooling = Pooling(detector_score=False, media="none")
    worst = protocol.evaluate(embeddings, tasks=["1:N"], options=IjbOptions(pooling=pooling, search="both")).worst
    numbers = protocol.media.templates
    vectors = {t: unit(embeddings.values[numbers == t].mean(axis=0)) for t in np.unique(numbers).tolist()}
    first = {t: protocol.names[int(np.argmax(numbers == t))] for t in vectors}
    galleries = [list(zip(g.templates.tolist(), g.subjects, strict=True)) for g in protocol.galleries.values()]
    assert protocol.probes is not None
    strangers, others, mates = [], [], []
    for probe, subject in zip(protocol.probes.templates.tolist(), protocol.probes.subjects, strict=True):
        for gallery in galleries:
            rows = [(first[probe], first[t], float(vectors[probe] @ vectors[t]), who == subject) for t, who in gallery]
            mates += [row[:3] for row in rows if row[3]]
            others += [row[:3] for row in rows if not row[3]]
            if not any(row[3] for row in rows):
                strangers.append(max(rows, key=lambda row: row[2])[:3])

    def highest(rows: list[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
        return sorted(rows, key=lambda row: -row[2])[:SHOWN]

    assert close(list(worst["false matches, 1:N"]), highest(strangers))
    assert close(list(worst["false matches, 1:N, merged"]), highest(others))
    for kind in ("false non-matches, 1:N", "false non-matches, 1:N, merged"):
        assert close(list(worst[kind]), sorted(mates, key=lambda row: row[2])[:SHOWN])


def test_classify(tmp_path: Path) -> None:
    vectors = pocket_vectors(12, 12)[0]
    prototypes = vectors[:, 9:].mean(axis=1)
    names = [f"{c}/{k}.png" for c in range(12) for k in range(9)]
    labels = np.repeat(np.arange(12), 9)
    embeddings = Embeddings(names, vectors[:, :9].reshape(-1, DIM))
    own = [float(unit(row) @ unit(prototypes[label])) for row, label in zip(embeddings.values, labels, strict=True)]
    prototypes = np.concatenate([prototypes, embeddings.values[[np.argmin(own)]]])
    result = Classify(tmp_path / "no list", tuple(names), labels).evaluate(embeddings, prototypes)
    table = np.array([[unit(row) @ unit(centre) for centre in prototypes] for row in embeddings.values])
    rows, other = np.arange(len(table)), table.copy()
    other[rows, labels] = -1
    wrong = [k for k in rows if table[k].argmax() != labels[k]]
    wrong.sort(key=lambda k: table[k, labels[k]] - other[k].max())
    assert len(wrong) > SHOWN
    mistakes = result.worst["mistakes"]
    for pair, sample in zip(mistakes, wrong[:SHOWN], strict=True):
        chosen = int(table[sample].argmax())
        best = max((k for k in rows if labels[k] == chosen), key=lambda k: table[k, chosen], default=None)
        assert (pair.left, pair.right) == (names[sample], f"class {chosen}" if best is None else names[best])
        assert pair.note == f"class {labels[sample]} as {chosen}"
        assert abs(pair.score - table[sample, chosen]) < 1e-5
        assert pair.threshold is not None
        assert abs(pair.threshold - table[sample, labels[sample]]) < 1e-5
    assert "class 12" in {pair.right for pair in mistakes}
    drawn = result.histograms["samples"]
    assert drawn.kinds == ("own prototype", "nearest other prototype")
    assert np.histogram(table[rows, labels], drawn.edges)[0].tolist() == drawn.genuine.tolist()
    assert np.histogram(other.max(axis=1), drawn.edges)[0].tolist() == drawn.impostors.tolist()
    product = Classify(tmp_path, tuple(names), labels).evaluate(embeddings, prototypes, similarity="inner_product")
    assert (product.histograms["samples"].outside, product.histograms["samples"].genuine.sum()) == (0, len(names))


def test_ytf(tmp_path: Path) -> None:
    embeddings = write_ytf(tmp_path / "splits.txt")
    result = read_ytf(tmp_path / "splits.txt").evaluate(embeddings, classifiers=["mean"])
    wrong = int((~result.items["right"]).sum())
    assert sum(map(len, result.worst.values())) == min(wrong, 2 * SHOWN) > 2
    for kind, sign in (("false matches", 1), ("false non-matches", -1)):
        beyond = [sign * (pair.score - (pair.threshold or 0)) for pair in result.worst[kind]]
        assert beyond == sorted(beyond, reverse=True)
        assert all(over >= 0 for over in beyond)
        for pair in result.worst[kind]:
            assert {pair.left, pair.right} <= set(embeddings.names)
            people = [name.partition("/")[0] for name in (pair.left, pair.right)]
            assert (people[0] == people[1]) == (sign < 0)


def test_reid(tmp_path: Path) -> None:
    embeddings = write_market(tmp_path)
    protocol = read_reid(tmp_path)
    result = protocol.evaluate(embeddings)
    vectors = {name: unit(row) for name, row in zip(embeddings.names, embeddings.values, strict=True)}
    seen = {name: parse_name(name.rpartition("/")[2], tmp_path)[:2] for name in embeddings.names}
    order = np.argsort(result.items["value:map"], kind="stable")[:SHOWN].tolist()
    wanted: dict[str, list[tuple[str, str, float]]] = {"false matches": [], "false non-matches": []}
    for query in (protocol.queries[k] for k in order):
        scores = {name: float(vectors[query] @ vectors[name]) for name in protocol.gallery}
        others = [name for name in scores if seen[name][0] not in (-1, seen[query][0])]
        mates = [name for name in scores if seen[name][0] == seen[query][0] and seen[name][1] != seen[query][1]]
        one, two = max(others, key=scores.__getitem__), min(mates, key=scores.__getitem__)
        wanted["false matches"].append((query, one, scores[one]))
        wanted["false non-matches"].append((query, two, scores[two]))
    for kind, rows in wanted.items():
        assert close(list(result.worst[kind]), rows), kind
