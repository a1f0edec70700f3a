#include "tessera/parallel/blocks/block_embedding.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "tessera/collective/rows.hpp"
#include "tessera/parallel/blocks/table_rows.hpp"
#include "tessera/parallel/blocks/traveling_blocks.hpp"
#include "tessera/shard/kept_weight.hpp"

namespace tessera::parallel {
namespace {

using shard::Weight;
using shard::WeightWork;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Tokens for channels, along the ranks that hold the table's columns: each has all tokens of its channels on
// one side, [n * T, C], and all channels of its tokens on the other, [n, T, C]; both of the same size.
Tensor exchanged(const Tensor& rows, const collective::Group& group) {
  const std::vector<std::int64_t> even(static_cast<std::size_t>(group.size()), rows.size(0) / group.size());
  return group.size() == 1 ? rows : collective::rows_exchanged(rows, group, even, even);
}

// What a rank's part of the table gives, summed over the parts and laid on the stream.
Tensor rows_to_stream(const Tensor& rows_NC, const TableAxes& axes) {
  const collective::Group& columns = axes.head.weights;
  const std::int64_t parts = columns.size(), tokens = rows_NC.size(0) / parts;
  const Tensor stack_KTC = exchanged(rows_NC, columns).view({parts, tokens, rows_NC.size(1)});
  if (axes.head.form == ProductAxes::Form::square) return scattered(stack_KTC, axes.vocabulary);
  const std::int64_t cuts = axes.vocabulary.size();
  return scattered(stack_KTC.transpose(0, 1).reshape({cuts, tokens / cuts, -1}), axes.vocabulary);
}

Tensor rows_from_stream(const Tensor& gradient_TC, const TableAxes& axes) {
  const collective::Group& columns = axes.head.weights;
  const std::int64_t parts = columns.size();
  Tensor stack = stacked(gradient_TC.contiguous(), axes.vocabulary);
  if (axes.head.form == ProductAxes::Form::cube)
    stack = stack.view({stack.size(0) * stack.size(1), parts, -1}).transpose(0, 1).contiguous();
  return exchanged(stack.flatten(0, 1), columns);
}

struct BlockEmbedding : Function<BlockEmbedding> {
  static Tensor forward(AutogradContext* ctx, const Tensor&, const Tensor& tokens, Weight* weight,
                        WeightWork* work, const TableAxes* axes) {
    shard::keep(ctx, *weight, *work);
    shard::keep_address(ctx, "head", &axes->head);
    shard::keep_address(ctx, "vocabulary", &axes->vocabulary);
    const Tensor& table = weight->value();
    const TableRows rows = rows_of_part(tokens, table.size(0), axes->vocabulary.rank());
    ctx->save_for_backward({rows.rows_T, rows.is_elsewhere_T1});
    return rows_to_stream(looked_up(table, rows), *axes);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const TableAxes axes{*shard::kept_address<const ProductAxes>(ctx, "head"),
                         *shard::kept_address<const collective::Group>(ctx, "vocabulary")};
    const auto saved = ctx->get_saved_variables();
    shard::kept_work(ctx).rows(shard::kept_weight(ctx), saved[0],
                               rows_from_stream(gradients[0], axes).masked_fill_(saved[1], 0));
    return {Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor block_embedding(const Tensor& tokens_T, Weight& weight_VH, const Tensor& tape, WeightWork& work,
                       const TableAxes& axes) {
  return BlockEmbedding::apply(tape, tokens_T, &weight_VH, &work, &axes);
}

}  // namespace tessera::parallel
