// A rank's part of a unit's work. With tp the columns of the first product of a branch and the rows of the
// second; on the residual stream between them all tokens, or with sequence parallelism a part of them. Or
// blocks of values and of weights (blocks/grid.hpp), where tp is a group of one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/parallel/blocks/grid.hpp"
#include "tessera/parallel/experts/dispatch.hpp"
#include "tessera/program/ir/tables.hpp"

namespace tessera::parallel {

struct ContextAxes {
  collective::Axis ring, heads;
};

struct ParallelContext {
  collective::Axis tp{"tp", {}};
  bool cuts_stream = false;  // sequence parallelism
  bool regathers = false;    // products gather what enters from the stream, again in the backward
  Grid grid;
  ContextAxes cp;
  // Those of a sample that this rank computes with, counted over the whole sample; the same on its device.
  std::vector<std::int64_t> positions;
  tensor::Tensor positions_there;
  std::int64_t loss_chunk = 512;  // tokens whose logits exist at a time
  ExpertRanks experts;
  collective::Axis same_samples{"cp+tp", {}};  // ranks with other tokens of the same samples
  collective::Axis batch{"batch", {}};         // ranks with other tokens of the same batch

  // Which of the tokens the stream has here.
  Share stream_share() const;
  // Ranks that have other channels of the same tokens inside of a branch.
  const collective::Axis& branch_channels() const { return grid.in_blocks() ? grid.branch_channels : tp; }
};

struct ContextOptions {
  std::int64_t sequence = 0;
  bool cuts_stream = false;
  bool regathers = false;
  ProductAxes::Form blocks = ProductAxes::Form::whole;
  bool gathers_blocks = false;
  std::int64_t loss_chunk = 512;
  std::int64_t expert_slices = 1;
  c10::Device device = c10::kCPU;
};
// Of the rank whose groups along the tables' axis sets these are.
ParallelContext make_context(const program::Tables& tables, std::span<const collective::Group> groups,
                             const ContextOptions& options);

// Rows of a tensor: `first` and those after it of samples * positions, both int64 on the tensor's device. And
// its channels: from that one on.
struct Rows {
  tensor::Tensor samples, positions;
  std::int64_t first = 0, first_channel = 0;
};

// The first of so many tokens that the stream has here.
std::int64_t first_of_stream(const ParallelContext& context, std::int64_t tokens);

// The tokens of these samples that the stream has here, `channels` of each; no rows of an undefined tensor.
Rows stream_rows(const ParallelContext& context, const tensor::Tensor& samples, std::int64_t channels);

// The rank's tokens from the stream, whole on each rank of tp: S(0) or I -> R.
tensor::Tensor from_stream(const tensor::Tensor& x_TH, const ParallelContext& context);
// Back, of what each rank has summed up: P -> S(0) or I.
tensor::Tensor to_stream(const tensor::Tensor& sums_TH, const ParallelContext& context,
                         collective::Result result = collective::Result::needed);

}  // namespace tessera::parallel
