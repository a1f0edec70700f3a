"""Loads a Tessera checkpoint by PyTorch's distributed checkpoint, for checkpoint_dcp_process_test.cpp.

  dcp.py CHECKPOINT EXPECTED.safetensors

Every tensor of EXPECTED is loaded whole by one process, then as DTensors on two Gloo ranks, sharded along each dim in turn;
all must be equal bit by bit. Prints what was compared. Only files of tensors are read: no pickle.
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS = 2


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8)


def expect_equal(name, found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape, (name, found.shape, found.dtype)
    assert torch.equal(bits(found), bits(expected)), f"{name}: other bytes"


def load_whole(folder, expected):
    state = {name: torch.full_like(value, 77) for name, value in expected.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
    for name, value in expected.items():
        expect_equal(name, state[name], value)
    print(f"whole: {len(state)} tensors are equal bit by bit")


def load_sharded(rank, folder, expected_path, rendezvous):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    expected = load_file(expected_path)
    for dim in range(max(value.dim() for value in expected.values())):
        chosen = {name: value for name, value in expected.items() if value.dim() > dim}
        state = {name: distribute_tensor(torch.full_like(value, 77), mesh, [Shard(dim)]) for name, value in chosen.items()}
        dcp.load(state, storage_reader=HuggingFaceStorageReader(folder))
        for name, value in chosen.items():
            expect_equal(name, state[name].to_local(), distribute_tensor(value, mesh, [Shard(dim)]).to_local())
        if rank == 0:
            print(f"sharded along dim {dim} on {RANKS} ranks: {len(state)} tensors are equal bit by bit")
    dist.destroy_process_group()


def main(folder, expected_path):
    load_whole(folder, load_file(expected_path))
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(load_sharded, (folder, expected_path, f"{place}/rendezvous"), nprocs=RANKS)


if __name__ == "__main__":
    main(*sys.argv[1:])
