#include "tessera/parallel/experts/dispatch.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/collective/linear_map.hpp"
#include "tessera/parallel/experts/router.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::parallel {
namespace {

using tensor::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Counts = std::vector<std::int64_t>;

// Above any number of tokens that ranks compute with at a time.
constexpr std::int64_t kOrders = std::int64_t{1} << 43;

std::int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Rows that each rank sends to each expert, [ranks, experts].
std::vector<Counts> exchanged_counts(const Tensor& loads_E, const collective::Group& group) {
  const std::int64_t ranks = group.size(), experts = loads_E.numel();
  Tensor all = tensor::empty({ranks, experts}, at::kLong, loads_E.device());
  group.all_gather(all, loads_E);
  const Tensor here = tensor::on_host(all);
  const auto* next = here.const_data_ptr<std::int64_t>();
  std::vector<Counts> out;
  for (std::int64_t rank = 0; rank < ranks; ++rank, next += experts) out.emplace_back(next, next + experts);
  return out;
}

// sum over k of the rows of each token, in the order of its choices.
Tensor summed_rows(const Tensor& rows_SH, const Tensor& rows_TK, const Tensor& factors_TK) {
  Tensor out = tensor::zeros({rows_TK.size(0), rows_SH.size(1)}, tensor::wide(rows_SH.scalar_type()),
                             rows_SH.device());
  for (std::int64_t k = 0; k < rows_TK.size(1) && rows_SH.size(0) > 0; ++k) {
    const Tensor rows = rows_SH.index_select(0, rows_TK.select(1, k));
    if (factors_TK.defined())
      out.addcmul_(rows.to(out.scalar_type()), factors_TK.narrow(1, k, 1).to(out.scalar_type()));
    else
      out.add_(rows);
  }
  return out.to(rows_SH.scalar_type());
}

struct WeightedSum : Function<WeightedSum> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows_SH, const Tensor& weights_TK,
                        const Tensor& choices_S, const Tensor& rows_TK) {
    ctx->save_for_backward({rows_SH, weights_TK, choices_S, rows_TK});
    return summed_rows(rows_SH, rows_TK, weights_TK);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &rows = saved[0], &weights = saved[1], &choices = saved[2], &rows_TK = saved[3];
    const Tensor tokens = choices.floor_divide(rows_TK.size(1));
    Tensor d_rows = gradients[0].index_select(0, tokens);
    const Tensor dots_S = d_rows.mul(rows).sum({1}, false, weights.scalar_type());
    Tensor d_weights = tensor::zeros(weights.sizes(), weights.scalar_type(), weights.device());
    d_weights.view({-1}).index_copy_(0, choices, dots_S);
    const Tensor factors_S1 = weights.detach().reshape({-1}).index_select(0, choices).unsqueeze(1);
    d_rows.mul_(factors_S1.to(d_rows.scalar_type()));
    return {d_rows, d_weights, Tensor(), Tensor()};
  }
};

}  // namespace

Dispatch::Dispatch(const Tensor& experts_TK, std::int64_t num_experts, const Tensor& order_T,
                   const ExpertRanks& ranks)
    : axis_(ranks.axis), slices_(ranks.slices) {
  const collective::Group& group = axis_.group;
  const std::int64_t holders = group.size() / slices_, held = num_experts / holders;
  TESSERA_CHECK(holders * slices_ == group.size() && holders * held == num_experts, num_experts,
                " experts on ", group.size(), " ranks in ", slices_, " slices");
  const auto counts = exchanged_counts(loads(experts_TK, num_experts), group);
  const auto from = [&](const Counts& of_rank, std::int64_t holder) {
    const auto* first = of_rank.data() + holder * held;
    return std::accumulate(first, first + held, std::int64_t{0});
  };
  const Counts& mine = counts[static_cast<std::size_t>(group.rank())];
  const std::int64_t holder = group.rank() / slices_;
  for (std::int64_t rank = 0; rank < group.size(); ++rank) {
    sent_to_.push_back(from(mine, rank / slices_));
    received_from_.push_back(from(counts[static_cast<std::size_t>(rank)], holder));
  }
  rows_.assign(static_cast<std::size_t>(held), 0);
  for (const Counts& of_rank : counts)
    for (std::size_t i = 0; i < rows_.size(); ++i)
      rows_[i] += of_rank[static_cast<std::size_t>(holder * held) + i];

  const Tensor flat = experts_TK.reshape({-1});
  const std::int64_t sent = sum_of(mine);
  choices_S_ = flat.argsort(/*stable=*/true, 0, false).narrow(0, flat.numel() - sent, sent);
  rows_TK_ = tensor::zeros(flat.sizes(), at::kLong, flat.device());
  rows_TK_.scatter_(0, choices_S_, counting_up(choices_S_));
  rows_TK_ = rows_TK_.view_as(experts_TK);
  if (sent < flat.numel()) kept_TK_ = experts_TK.ge(0);
  if (group.size() == 1) return;
  const Tensor tokens_S = choices_S_.floor_divide(experts_TK.size(1));
  const Tensor keys_S =
      flat.index_select(0, choices_S_).mul_(kOrders).add_(order_T.index_select(0, tokens_S));
  const Tensor keys_R = exchanged(to_slices(keys_S.unsqueeze(1)), received_from_, sent_to_).squeeze(1);
  sorted_R_ = keys_R.argsort(/*stable=*/true, 0, false);
  unsorted_R_ = tensor::zeros(sorted_R_.sizes(), at::kLong, sorted_R_.device());
  unsorted_R_.scatter_(0, sorted_R_, counting_up(sorted_R_));
}

// Rows for the holders of one expert after the other, again for each of its slices.
Tensor Dispatch::to_slices(const Tensor& rows_SH) const {
  if (slices_ == 1) return rows_SH;
  std::vector<Tensor> parts;
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < sent_to_.size(); ++rank) {
    parts.push_back(rows_SH.narrow(0, first, sent_to_[rank]));
    if (static_cast<std::int64_t>(rank + 1) % slices_ == 0) first += sent_to_[rank];
  }
  return tensor::concatenate(parts, 0);
}

Tensor Dispatch::sum_of_slices(const Tensor& rows) const {
  if (slices_ == 1) return rows;
  std::int64_t sent = 0, begin = 0, first = 0;
  for (std::size_t rank = 0; rank < sent_to_.size(); rank += static_cast<std::size_t>(slices_))
    sent += sent_to_[rank];
  Tensor out = tensor::empty({sent, rows.size(1)}, rows.scalar_type(), rows.device());
  for (std::size_t rank = 0; rank < sent_to_.size(); ++rank) {
    const std::int64_t slice = static_cast<std::int64_t>(rank) % slices_, count = sent_to_[rank];
    Tensor to = out.narrow(0, begin, count);
    const Tensor part = rows.narrow(0, first, count);
    slice == 0 ? to.copy_(part) : to.add_(part);
    first += count;
    if (slice + 1 == slices_) begin += count;
  }
  return out;
}

Tensor Dispatch::exchanged(const Tensor& rows, const Counts& arriving, const Counts& leaving) const {
  return collective::exchange_rows({rows, "rows of experts", {{axis_.name, collective::kVarying}}}, axis_,
                                   arriving, leaving)
      .tensor;
}

Tensor Dispatch::exchanged(const Tensor& rows, Way way, const collective::Group& group) const {
  const bool goes = way == Way::to_experts;
  const Counts &arriving = goes ? received_from_ : sent_to_, &leaving = goes ? sent_to_ : received_from_;
  Tensor out = tensor::empty({sum_of(arriving), rows.size(1)}, rows.scalar_type(), rows.device());
  group.all_to_all(out, rows.contiguous(), arriving, leaving);
  return out;
}

// Captures are copies: derivatives outlive this. Of each way only what comes last is held.
Tensor Dispatch::leaving(const Tensor& x_TH) const {
  const auto self = *this;
  const Tensor rows = collective::apply_linear(
      x_TH,
      [self](const Tensor& x) {
        return x.index_select(0, self.choices_S_.floor_divide(self.rows_TK_.size(1)));
      },
      [self](const Tensor& d) { return summed_rows(d, self.rows_TK_, self.kept_TK_); });
  if (axis_.group.size() == 1) return rows;
  return collective::apply_linear(
      rows, [self](const Tensor& sent) { return self.to_slices(sent); },
      [self](const Tensor& d) { return self.sum_of_slices(d); });
}

Tensor Dispatch::arrived(const Tensor& rows) const {
  if (axis_.group.size() == 1) return rows;
  const auto self = *this;
  return collective::apply_linear(
      rows, [self](const Tensor& there) { return there.index_select(0, self.sorted_R_); },
      [self](const Tensor& d) { return d.index_select(0, self.unsorted_R_); });
}

Tensor Dispatch::returning(const Tensor& rows) const {
  if (axis_.group.size() == 1) return rows;
  const auto self = *this;
  return collective::apply_linear(
      rows, [self](const Tensor& made) { return made.index_select(0, self.unsorted_R_); },
      [self](const Tensor& d) { return d.index_select(0, self.sorted_R_); });
}

Tensor Dispatch::summed(const Tensor& rows, const Tensor& weights_TK) const {
  const auto self = *this;
  const Tensor whole = axis_.group.size() == 1
                           ? rows
                           : collective::apply_linear(
                                 rows, [self](const Tensor& back) { return self.sum_of_slices(back); },
                                 [self](const Tensor& d) { return self.to_slices(d); });
  const Tensor factors_TK = kept_TK_.defined() ? weights_TK.mul(kept_TK_) : weights_TK;
  return WeightedSum::apply(whole, factors_TK, choices_S_, rows_TK_);
}

Tensor Dispatch::to_experts(const Tensor& x_TH) const {
  Tensor rows = leaving(x_TH);
  if (axis_.group.size() > 1) rows = exchanged(rows, received_from_, sent_to_);
  return arrived(rows);
}

Tensor Dispatch::combine(Tensor rows, const Tensor& weights_TK) const {
  rows = returning(rows);
  if (axis_.group.size() > 1) rows = exchanged(rows, sent_to_, received_from_);
  return summed(rows, weights_TK);
}

}  // namespace tessera::parallel
