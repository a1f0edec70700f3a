#include "tessera/parallel/experts/router.hpp"

#include <limits>

#include "tessera/base/error.hpp"

namespace tessera::parallel {
namespace {

using tensor::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();

// The columns of the `count` largest of each row, the largest first; of equal ones the first, which a sort by
// value would not promise.
Tensor largest_columns(Tensor values_TC, std::int64_t count) {
  values_TC = values_TC.clone();
  std::vector<Tensor> columns;
  for (std::int64_t i = 0; i < count; ++i) {
    columns.push_back(values_TC.argmax(1, /*keepdim=*/true));
    if (i + 1 < count) values_TC.scatter_(1, columns.back(), kNever);
  }
  return tensor::concatenate(columns, 1);
}

Tensor in_kept_groups(const Tensor& values_TE, const RouterRule& rule) {
  const std::int64_t tokens = values_TE.size(0), size = values_TE.size(1) / rule.groups;
  const Tensor by_group = values_TE.view({tokens, rule.groups, size});
  const Tensor flat = by_group.reshape({-1, size});
  const Tensor best = flat.gather(1, largest_columns(flat, std::min<std::int64_t>(2, size)));
  const Tensor kept = largest_columns(best.sum(1).view({tokens, rule.groups}), rule.groups_kept);
  Tensor is_out = tensor::empty({tokens, rule.groups}, at::kBool, values_TE.device()).fill_(true);
  is_out.scatter_(1, kept, false);
  return by_group.masked_fill(is_out.unsqueeze(2), kNever).view_as(values_TE);
}

Tensor chosen(const Tensor& scores_TE, const Tensor& bias_E, const RouterRule& rule) {
  const at::NoGradGuard no_gradient;
  Tensor values = scores_TE.detach();
  if (bias_E.defined()) values = values.add(bias_E.to(values.scalar_type()));
  if (rule.groups_kept < rule.groups) values = in_kept_groups(values, rule);
  return largest_columns(values, rule.experts_per_token);
}

}  // namespace

Routing route(const Tensor& logits_TE, const Tensor& bias_E, const RouterRule& rule,
              const Tensor& chosen_TK) {
  const std::int64_t experts = logits_TE.size(1);
  TESSERA_CHECK(rule.experts_per_token <= experts && experts % rule.groups == 0 &&
                    rule.experts_per_token <= experts / rule.groups * rule.groups_kept,
                rule.experts_per_token, " of ", experts, " experts in ", rule.groups_kept, " of ",
                rule.groups, " groups");
  Routing out;
  out.scores_TE = rule.scores == RouterRule::Scores::softmax ? logits_TE.softmax(1) : logits_TE.sigmoid();
  out.experts_TK = chosen_TK.defined() ? chosen_TK : chosen(out.scores_TE, bias_E, rule);
  out.weights_TK = out.scores_TE.gather(1, out.experts_TK);
  if (rule.normalizes) {
    // Sigmoids may all be zero in fp32; softmaxes of the best are not.
    const double least = rule.scores == RouterRule::Scores::sigmoid ? 1e-20 : 0;
    out.weights_TK = out.weights_TK.div(out.weights_TK.sum(1, true).add(least));
  }
  if (rule.scale != 1) out.weights_TK = out.weights_TK.mul(rule.scale);
  return out;
}

Tensor loads(const Tensor& experts_TK, std::int64_t num_experts) {
  return loads(experts_TK, experts_TK.select(1, 0).clone().zero_(), 1, num_experts).view({-1});
}

Tensor loads(const Tensor& experts_TK, const Tensor& samples_T, std::int64_t num_samples,
             std::int64_t num_experts) {
  // What chose nothing goes to a column of its own.
  const Tensor places = samples_T.mul(num_experts + 1).unsqueeze(1).add(experts_TK).add_(1).reshape({-1});
  Tensor out = tensor::zeros({num_samples * (num_experts + 1)}, at::kLong, experts_TK.device());
  out.scatter_add_(0, places, places.clone().fill_(1));
  return out.view({num_samples, num_experts + 1}).narrow(1, 1, num_experts);
}

Tensor counting_up(const Tensor& like) { return like.clone().fill_(1).cumsum(0).sub_(1); }

Tensor within_capacity(const SequenceChoices& choices, double factor, std::int64_t num_experts,
                       const collective::Group& group) {
  constexpr std::int64_t kPositions = std::int64_t{1} << 25;  // more than a sequence has
  const std::int64_t tokens = choices.experts_TK.size(0), k = choices.experts_TK.size(1);
  const Tensor mine = tensor::concatenate(
      {choices.experts_TK, choices.sequences_T.unsqueeze(1), choices.positions_T.unsqueeze(1)}, 1);
  Tensor all = tensor::empty({group.size() * tokens, k + 2}, at::kLong, mine.device());
  group.all_gather(all, mine);
  const Tensor experts_AK = all.narrow(1, 0, k), sequences_A1 = all.narrow(1, k, 1);
  const Tensor chosen = loads(experts_AK, sequences_A1.squeeze(1), choices.num_sequences, num_experts);
  const Tensor most_B = chosen.sum(1).to(at::kDouble).mul_(factor / static_cast<double>(num_experts)).ceil_();
  // By sequence, expert and position; what chose nothing comes before all.
  const Tensor columns = sequences_A1.mul(num_experts).add(experts_AK);
  const Tensor keys =
      columns.mul(kPositions).add_(all.narrow(1, k + 1, 1)).masked_fill_(experts_AK.lt(0), -1);
  const Tensor order = keys.reshape({-1}).argsort(/*stable=*/true, 0, false);
  const Tensor sorted = columns.reshape({-1}).index_select(0, order);
  const Tensor before = chosen.reshape({-1}).cumsum(0).sub_(chosen.reshape({-1}));  // of earlier columns
  const Tensor none = experts_AK.lt(0).sum();
  const Tensor rank =
      counting_up(sorted).sub_(none).sub_(before.index_select(0, sorted.clamp(0, before.numel() - 1)));
  const Tensor most = most_B.index_select(
      0, sorted.clamp_min(0).floor_divide(num_experts).clamp_max(choices.num_sequences - 1));
  Tensor is_kept = tensor::empty(sorted.sizes(), at::kBool, mine.device());
  is_kept.index_copy_(0, order, rank.lt(most));
  const Tensor own = is_kept.view({group.size() * tokens, k}).narrow(0, group.rank() * tokens, tokens);
  return choices.experts_TK.masked_fill(own.logical_not(), -1);
}

}  // namespace tessera::parallel
