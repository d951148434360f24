"""Accelerate: prepare the network and the head together, so that both get the gradients of all processes.

pip install accelerate && accelerate launch examples/with_accelerate.py
"""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import hypersphere as hs


def main(epochs: int = 3) -> list[float]:
    """Return the loss of every step."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    centers, labels = torch.randn(10, 20), torch.arange(640) % 10
    data = TensorDataset(centers[labels] + 0.3 * torch.randn(640, 20), labels)
    net = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
    head = hs.create_head("cosface", dim=16, num_classes=10, scale=16, margin=0.2, margin_steps=20)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
    loader = DataLoader(data, batch_size=64, shuffle=True)
    net, head, optimizer, loader = accelerator.prepare(net, head, optimizer, loader)

    losses = []
    for _ in range(epochs):
        for inputs, targets in loader:
            with accelerator.autocast():  # the head computes in float32 in any case
                loss = head(net(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            accelerator.unwrap_model(head).advance()
            losses.append(loss.item())
    accelerator.print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} on {accelerator.num_processes} process(es)")
    return losses


if __name__ == "__main__":
    main()
