"""Two processes, a device in each: collectives, and a model that is trained by both."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.torch_device.apart import in_a_process

BEGIN = """
import sys, datetime, torch, torch.distributed as dist, labkit.torch_device
rank, place = int(sys.argv[1]), sys.argv[2]
waits = datetime.timedelta(seconds=200)
dist.init_process_group(init_method="file://" + place, rank=rank, world_size=2, timeout=waits)
def of(*numbers):
    return torch.tensor([float(each) for each in numbers], device="lab")
"""


def both(program, tmp_path):
    """What the two processes print that run the program together."""
    with ThreadPoolExecutor(2) as pool:
        ranks = [
            pool.submit(in_a_process, BEGIN + program, str(rank), str(tmp_path / "store"))
            for rank in range(2)
        ]
        done = [rank.result() for rank in ranks]
    for one in done:
        assert one.returncode == 0, one.stderr
    return [one.stdout for one in done]


def test_collectives_go_through_the_host_and_come_back(tmp_path):
    found = both(
        """
x = of(1 + rank, 5)
dist.all_reduce(x)
y = of(rank)
dist.broadcast(y, 1)
gathered = [of(0), of(0)]
dist.all_gather(gathered, of(10 + rank))
part = of(0)
dist.reduce_scatter(part, [of(1 + rank), of(20 + rank)])
if rank:
    dist.recv(z := of(0), 0)
else:
    dist.send(z := of(7), 1)
on_host = torch.ones(1)
dist.all_reduce(on_host)
dist.barrier()
print([each.tolist() for each in (x, y, *gathered, part, z, on_host)], x.device)
""",
        tmp_path,
    )
    for rank, text in enumerate(found):
        expected = [[3, 10], [1], [10], [11], [[3], [41]][rank], [7], [2]]
        assert text == f"{[[float(n) for n in each] for each in expected]} lab:0\n"


def test_a_model_that_two_processes_train_has_the_losses_of_one(tmp_path):
    found = both(
        """
from torch.nn.parallel import DistributedDataParallel
def losses(device, rows, wrap):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    x = torch.randn(8, 4)[rows].to(device)
    model = wrap(model.to(device))
    sgd, found = torch.optim.SGD(model.parameters(), 0.1), []
    for _ in range(4):
        sgd.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        sgd.step()
        found.append(loss.detach().reshape(1))
    return torch.cat(found)
mine = losses("lab", slice(4 * rank, 4 * rank + 4), DistributedDataParallel)
assert torch.lab.fallbacks() == {}, torch.lab.fallbacks()
dist.all_reduce(mine)
print(*(mine / 2).tolist(), *losses("cpu", slice(8), lambda model: model).tolist())
dist.destroy_process_group()
""",
        tmp_path,
    )
    assert found[0] == found[1]
    numbers = [float(word) for word in found[0].split()]
    assert numbers[:4] == pytest.approx(numbers[4:], abs=1e-5)
    assert numbers[3] < numbers[0]
