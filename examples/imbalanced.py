"""Imbalanced classes: margins by class counts (LDAM) against plain softmax, accuracy of many, medium and few shots.

python examples/imbalanced.py
"""

import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.evaluation import accuracy_by_shots

NUM_CLASSES, DIM = 20, 16
COUNTS = [round(200 * 0.01 ** (k / (NUM_CLASSES - 1))) for k in range(NUM_CLASSES)]  # 200 down to 2


def samples(centers: Tensor, counts: list[int]) -> tuple[Tensor, Tensor]:
    labels = torch.repeat_interleave(torch.arange(NUM_CLASSES), torch.tensor(counts))
    return centers[labels] + 0.7 * torch.randn(len(labels), DIM), labels


def trained(name: str, inputs: Tensor, labels: Tensor, **options: object) -> torch.nn.ModuleList:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(DIM, 64), torch.nn.ReLU(), torch.nn.Linear(64, DIM))
    head = hs.create_head(name, dim=DIM, num_classes=NUM_CLASSES, **options)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=2e-3)
    for _ in range(300):
        chosen = torch.randint(len(labels), (128,))
        optimizer.zero_grad()
        head(net(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
    return torch.nn.ModuleList([net, head])


def main() -> dict[str, dict[str, float]]:
    """Return for each loss the accuracy by group of classes, on a balanced test set."""
    torch.manual_seed(0)
    centers = torch.randn(NUM_CLASSES, DIM)
    inputs, labels = samples(centers, COUNTS)
    test_inputs, test_labels = samples(centers, [50] * NUM_CLASSES)
    found = {}
    margins = {"class_counts": COUNTS, "max_margin": 0.5, "scale": 20, "prototype_norm": 1}
    for name, options in (("softmax", {}), ("ldam", margins)):
        net, head = trained(name, inputs, labels, **options)
        with torch.no_grad():
            right = (head.predict(net(test_inputs)) == test_labels).numpy()
        groups = accuracy_by_shots(right, test_labels.numpy(), COUNTS, many=100, few=20)
        found[name] = {group: estimate.value for group, estimate in groups.items()}
        print(name, {group: f"{100 * value:.1f} %" for group, value in found[name].items()})
    return found


if __name__ == "__main__":
    main()
