"""Does Megatron-LM's own reader open the pair that we wrote, and what does it write itself?

usage: indexed_pair.py OURS EXPECTED THEIRS TYPE: the pair OURS must hold the documents of EXPECTED (one per line, tokens with
spaces between); the same documents are written to the pair THEIRS by Megatron's writer, in TYPE (uint16 or int32).
"""
import sys

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder, get_bin_path, get_idx_path

ours, expected, theirs, dtype = sys.argv[1:]
documents = [[int(word) for word in line.split()] for line in open(expected)]

dataset = IndexedDataset(ours, mmap=True)
assert len(dataset) == len(documents), (len(dataset), len(documents))
assert dataset.index.dtype == getattr(numpy, dtype), dataset.index.dtype
assert list(dataset.document_indices) == list(range(len(documents) + 1))
for index, tokens in enumerate(documents):
    assert dataset[index].tolist() == tokens, index

builder = IndexedDatasetBuilder(get_bin_path(theirs), dtype=getattr(numpy, dtype))
for tokens in documents:
    builder.add_item(torch.tensor(tokens, dtype=torch.int64))
    builder.end_document()
builder.finalize(get_idx_path(theirs))
