// Is a product of blocks the product, and does it move what the theory says? About 1 s.
#include <gtest/gtest.h>

#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/parallel/blocks/block_linear.hpp"
#include "tessera/parallel/testing/random_tensor.hpp"

namespace tessera::parallel {
namespace {

using collective::CallKind;
using shard::Weight;
using shard::WeightWork;
using tensor::Tensor;
using ProductForm = ProductAxes::Form;

constexpr std::int64_t kRows = 36, kInputs = 72, kOutputs = 18;

struct GridPlace {
  std::int64_t row, column, layer;
};

// Part `index` of `parts` along a dim.
Tensor part_along(const Tensor& t, std::int64_t dim, std::int64_t index, std::int64_t parts) {
  const std::int64_t size = t.size(dim) / parts;
  return t.narrow(dim, index * size, size);
}

// The blocks of x, W and y, as blocks/grid.hpp says.
struct CutMatrices {
  ProductForm form;
  std::int64_t q;
  bool enters;  // cube: rows and columns change their parts on the way into a branch
  Tensor x(const Tensor& whole, const GridPlace& at) const {
    if (form == ProductForm::square) return part_along(part_along(whole, 0, at.row, q), 1, at.column, q);
    return part_along(part_along(part_along(whole, 0, at.layer, q), 0, enters ? at.row : at.column, q), 1,
                      enters ? at.column : at.row, q);
  }
  Tensor y(const Tensor& whole, const GridPlace& at) const {
    return form == ProductForm::square ? x(whole, at) : CutMatrices{form, q, !enters}.x(whole, at);
  }
  Tensor w(const Tensor& whole, const GridPlace& at) const {
    if (form == ProductForm::square) return part_along(part_along(whole, 1, at.row, q), 0, at.column, q);
    return part_along(part_along(part_along(whole, 1, enters ? at.column : at.row, q), 1, at.layer, q), 0,
                      enters ? at.row : at.column, q);
  }
};

struct GridGroups {
  collective::Group row, column, layer;  // along each
};
GridGroups grid_groups(const collective::Communicator& communicator, const GridPlace& at, std::int64_t q,
                       std::int64_t layers) {
  std::vector<std::vector<int>> lists(3);
  const auto rank = [&](std::int64_t row, std::int64_t column, std::int64_t layer) {
    return static_cast<int>((layer * q + row) * q + column);
  };
  for (std::int64_t i = 0; i < q; ++i) {
    lists[0].push_back(rank(i, at.column, at.layer));
    lists[1].push_back(rank(at.row, i, at.layer));
  }
  for (std::int64_t i = 0; i < layers; ++i) lists[2].push_back(rank(at.row, at.column, i));
  const auto made = collective::make_groups(communicator, lists);
  return {made[0], made[1], made[2]};
}

// Elements of fp64 that this rank received.
std::int64_t elements_received(const std::vector<collective::Group>& groups) {
  std::int64_t bytes = 0;
  for (const collective::Group& group : groups)
    for (const CallKind kind : collective::kCallKinds)
      bytes += sent_bytes(kind, group.tally().volume(kind).bytes, group.size());
  return bytes / 8;
}

struct ElementsMoved {
  std::int64_t forward, both;
};

ElementsMoved expect_product(ProductForm form, std::int64_t q, bool gathers, bool enters) {
  const Tensor x = random({kRows, kInputs}, 1), w = random({kOutputs, kInputs}, 2),
               dy = random({kRows, kOutputs}, 3);
  const Tensor y = x.mm(w.t()), dx = dy.mm(w), dw = dy.t().mm(x);
  const std::int64_t layers = form == ProductForm::cube ? q : 1;
  ElementsMoved out{0, 0};
  const std::string what = cat(form == ProductForm::cube ? "cube" : "square", " of ", q,
                               gathers ? ", gathered" : "", enters ? ", entering" : ", leaving");
  collective::run_ranks(static_cast<int>(q * q * layers), [&](const collective::Communicator& communicator) {
    const std::int64_t rank = communicator.rank();
    const GridPlace at{rank / q % q, rank % q, rank / q / q};
    const CutMatrices blocks{form, q, enters};
    const GridGroups groups = grid_groups(communicator, at, q, layers);
    const ProductAxes axes = form == ProductForm::square
                                 ? ProductAxes{form, groups.column, groups.row, {}, gathers}
                             : enters ? ProductAxes{form, groups.row, groups.layer, groups.column}
                                      : ProductAxes{form, groups.column, groups.layer, groups.row};
    const Tensor x_block = blocks.x(x, at).contiguous().requires_grad_();
    Tensor gradient = tensor::empty(blocks.w(w, at).sizes(), at::kDouble);
    Weight weight(blocks.w(w, at).contiguous(), gradient);
    WeightWork work;
    const Tensor y_block = block_linear(x_block, weight, work, axes);
    const std::int64_t forward = elements_received({groups.row, groups.column, groups.layer});
    tensor::Graph graph(std::vector{y_block});
    const auto found = graph.run(std::vector{blocks.y(dy, at).contiguous()}, std::vector{x_block});
    work.run();
    EXPECT_LT(distance(y_block.detach(), blocks.y(y, at)), 1e-12) << what << ", rank " << rank;
    EXPECT_LT(distance(found[0], blocks.x(dx, at)), 1e-12) << what << ", rank " << rank;
    EXPECT_LT(distance(weight.gradient(), blocks.w(dw, at)), 1e-12) << what << ", rank " << rank;
    if (rank == 0) out = {forward, elements_received({groups.row, groups.column, groups.layer})};
  });
  return out;
}

TEST(BlockLinear, OfSquaresIsTheProductAndMovesWhatTheTheorySays) {
  for (const std::int64_t q : {1, 2, 3})
    for (const bool gathers : {false, true}) {
      const auto [forward, both] = expect_product(ProductForm::square, q, gathers, true);
      const std::int64_t once = (q - 1) * (kRows * kInputs + kInputs * kOutputs) / (q * q);
      EXPECT_EQ(forward, once) << q;
      EXPECT_EQ(both, 3 * once) << q;
    }
}

TEST(BlockLinear, OfCubesIsTheProductAndMovesAtMostWhatTheTheorySays) {
  for (const std::int64_t q : {1, 2, 3})
    for (const bool enters : {true, false}) {
      const auto [forward, both] = expect_product(ProductForm::cube, q, false, enters);
      const std::int64_t x = kRows * kInputs, w = kInputs * kOutputs, y = kRows * kOutputs, cube = q * q * q;
      EXPECT_EQ(forward, (q - 1) * (x + w + y) / cube) << q;
      EXPECT_EQ(both, (q - 1) * (3 * x + 3 * w + 2 * y) / cube) << q;
      EXPECT_LE(both, 3 * (q - 1) * (x + w + y) / cube) << q;
    }
}

}  // namespace
}  // namespace tessera::parallel
