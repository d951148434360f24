"""Plain PyTorch: train ArcFace on painted people, then verify people that the network has never seen.

python examples/plain_pytorch.py
"""

import torch

import hypersphere as hs
from hypersphere.evaluation import verify_pairs
from hypersphere.pocket import PocketFaces, verification_pairs


def pixels(source: PocketFaces, indices: torch.Tensor) -> torch.Tensor:
    return (source.batch(indices.numpy()).float() - 127.5) / 127.5


def main(steps: int = 150) -> float:
    """Return the accuracy of verification, the best threshold chosen on other folds."""
    torch.manual_seed(0)
    people = PocketFaces(num_identities=40, images_per_identity=10, size=32)
    labels = torch.from_numpy(people.labels)
    net = hs.create_backbone("cnn4", dim=64, input_size=(32, 32))
    head = hs.create_head("arcface", dim=64, num_classes=people.num_classes, scale=16, margin=0.2, prototype_norm=1)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=2e-3)
    for step in range(steps):
        chosen = torch.randint(len(people), (32,))
        loss = head(net(pixels(people, chosen)), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        head.advance()  # moves annealing and margin schedules, where the loss has any
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.2f}")

    strangers = PocketFaces(num_identities=30, images_per_identity=6, size=32, first_identity=40)
    left, right, same = verification_pairs(strangers, 600, seed=0)
    net.eval()
    with torch.no_grad():
        embeddings = torch.nn.functional.normalize(net(pixels(strangers, torch.arange(len(strangers)))))
    scores = (embeddings[left] * embeddings[right]).sum(1).numpy()
    accuracy = verify_pairs(scores, same, subjects=(strangers.labels[left], strangers.labels[right])).accuracy
    print(f"accuracy {100 * accuracy.value:.1f} % [{100 * accuracy.low:.1f}, {100 * accuracy.high:.1f}]")
    return accuracy.value


if __name__ == "__main__":
    main()
