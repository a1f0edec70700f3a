#include "tessera/model/experts.hpp"

#include "tessera/base/error.hpp"
#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/parallel/experts/grouped_linear.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::model {
namespace {

parallel::RouterRule rule_of(const spec::Model& spec) {
  return {.scores = spec.router_scores == spec::RouterScores::softmax ? parallel::RouterRule::Scores::softmax
                                                                      : parallel::RouterRule::Scores::sigmoid,
          .experts_per_token = spec.experts_per_token,
          .groups = spec.router_groups,
          .groups_kept = spec.router_groups_kept,
          .normalizes = spec.router_normalizes,
          .scale = spec.router_scale};
}

}  // namespace

Experts::Experts(const spec::Model& spec, std::size_t layer, const ExpertWeights& weights,
                 const parallel::ParallelContext& context)
    : spec_(spec), layer_(layer), weights_(weights), rule_(rule_of(spec)), context_(context) {}

Experts::Share Experts::share_of(std::int64_t tokens, const Batch& batch) const {
  const std::int64_t ranks = context_.tp.group.size(), rank = context_.tp.group.rank();
  const std::int64_t all = context_.cuts_stream ? tokens * ranks : tokens;
  Share out{.positions = all / std::max<std::int64_t>(batch.samples, 1)};
  for (std::int64_t i = 0; i < ranks; ++i) {
    out.rows.push_back(all / ranks + (i < all % ranks ? 1 : 0));
    if (i < rank) out.first += out.rows.back();
  }
  out.count = out.rows[static_cast<std::size_t>(rank)];
  return out;
}

// Note [Choices are made once]
// A recomputation takes the choice that its forward made: were it to choose again, another kernel or another
// rounding could send tokens elsewhere, and the backward would differentiate another function. What is saved
// by a forward without a tape is taken out by the recomputation, so nothing outlives the step.
parallel::Routing Experts::chosen(const Tensor& logits_TE, const Share& share, const Batch& batch) const {
  const Tensor bias = weights_.bias_E ? weights_.bias_E->value() : Tensor();
  if (batch.choices && at::GradMode::is_enabled())
    if (const auto found = batch.choices->extract(layer_))
      return parallel::route(logits_TE, bias, rule_, found.mapped());
  const auto given = batch.replayed.find(layer_);
  const Tensor chosen_TK = given == batch.replayed.end() ? Tensor() : share.of(given->second);
  const auto out = parallel::route(logits_TE, bias, rule_, chosen_TK);
  if (batch.choices && !at::GradMode::is_enabled()) (*batch.choices)[layer_] = out.experts_TK;
  if (batch.made)
    (*batch.made)[layer_] = tensor::concatenate({share.of(batch.order_T).unsqueeze(1), out.experts_TK}, 1);
  return out;
}

Experts::Routed Experts::routed(const Tensor& x_TH, const Share& share, const Batch& batch, Tape& tape,
                                std::vector<Tensor>& losses, const parallel::Dispatch* there) const {
  Tensor x = x_TH;
  if (slices_tokens())
    x = collective::slice({x, "tokens", {{"tp", collective::kInvariant}}}, context_.tp, 0, share.rows).tensor;
  const Tensor logits_TE =
      parallel::linear(x.to(tensor::wide(x.scalar_type())), weights_.router_EH, tape.work);
  const parallel::Routing routing = chosen(logits_TE, share, batch);
  const Tensor counted_T = share.of(batch.counted_T);
  const Tensor experts_TK = counted_T.defined()
                                ? routing.experts_TK.masked_fill(counted_T.logical_not().unsqueeze(1), -1)
                                : routing.experts_TK;
  if (weights_.bias_E) {
    // How far each load is above the mean: the bias moves against it.
    const Tensor loads_E = parallel::loads(experts_TK, spec_.experts).to(logits_TE.scalar_type());
    tape.work.term(*weights_.bias_E, loads_E.sub(loads_E.mean()));
  }
  add_losses(logits_TE, routing, experts_TK, share, batch, losses);
  // In generation all ranks of tp have the same tokens, and nothing is dropped.
  const Tensor order_T = batch.order_T.defined() ? share.of(batch.order_T) : places_of(share, experts_TK);
  const Tensor sent_TK =
      spec_.capacity_factor > 0 && batch.order_T.defined()
          ? parallel::within_capacity({.experts_TK = experts_TK,
                                       .sequences_T = samples_of(share, experts_TK),
                                       .positions_T = order_T.remainder(spec_.sequence),
                                       .num_sequences = batch.samples},
                                      spec_.capacity_factor, spec_.experts, context_.same_samples.group)
          : experts_TK;
  if (batch.loads && at::GradMode::is_enabled()) add_loads(experts_TK, sent_TK, *batch.loads);
  if (there) return {x, routing.weights_TK, *there};  // choices are made once, and so are their ways
  return {x, routing.weights_TK, {sent_TK, spec_.experts, order_T, context_.experts}};
}

Tensor Experts::fed(const Tensor& rows, const parallel::Dispatch& dispatch, Tape& tape) const {
  const Tensor gate_up = parallel::grouped_linear(rows, dispatch.rows(), weights_.gate_up_E2FH, tape.work);
  return parallel::grouped_linear(parallel::swiglu(gate_up), dispatch.rows(), weights_.down_EHF, tape.work);
}

Tensor Experts::on_stream(const Tensor& out, const Share& share, Result result) const {
  if (!slices_tokens()) return out;
  return collective::gather_invariant({out, "tokens", {{"tp", collective::sharded(0)}}}, context_.tp,
                                      share.rows, result)
      .tensor;
}

Tensor Experts::operator()(const Tensor& x_TH, const Batch& batch, Tape& tape, std::vector<Tensor>& losses,
                           Result result) const {
  const Share share = share_of(x_TH.size(0), batch);
  const Routed routed = this->routed(x_TH, share, batch, tape, losses);
  Tensor made = fed(routed.dispatch.to_experts(routed.x_TH), routed.dispatch, tape);
  return on_stream(routed.dispatch.combine(std::move(made), routed.weights_TK), share, result);
}

std::vector<Tensor> Experts::route(const Tensor& x_TH, const Batch& batch, Tape& tape,
                                   std::vector<Tensor>& losses) const {
  auto& there = batch.dispatches->at(layer_);
  const Routed routed = this->routed(x_TH, share_of(x_TH.size(0), batch), batch, tape, losses, there.get());
  if (!there) there = std::make_shared<const parallel::Dispatch>(routed.dispatch);
  return {routed.dispatch.leaving(routed.x_TH), routed.weights_TK};
}

Tensor Experts::run(const Tensor& rows, const Batch& batch, Tape& tape) const {
  const parallel::Dispatch& there = dispatch(batch);
  return there.returning(fed(there.arrived(rows), there, tape));
}

Tensor Experts::combine(const Tensor& rows, const Tensor& weights_TK, const Batch& batch,
                        Result result) const {
  const std::int64_t tokens = batch.tokens_T.numel() / (context_.cuts_stream ? context_.tp.group.size() : 1);
  return on_stream(dispatch(batch).summed(rows, weights_TK), share_of(tokens, batch), result);
}

const parallel::Dispatch& Experts::dispatch(const Batch& batch) const {
  const auto& found = batch.dispatches->at(layer_);
  TESSERA_CHECK(found, "layer ", layer_, " sends rows before it has chosen");
  return *found;
}

void Experts::add_loads(const Tensor& chosen_TK, const Tensor& sent_TK, ByLayer& loads) const {
  const Tensor dropped = chosen_TK.ge(0).sum().sub(sent_TK.ge(0).sum());
  const Tensor added = tensor::concatenate({parallel::loads(chosen_TK, spec_.experts), dropped.view({1})}, 0);
  Tensor& sum = loads[layer_];
  sum = sum.defined() ? sum.add(added) : added;
}

// Of the tokens that this rank routes, among those of all ranks of tp; and their samples.
Tensor Experts::places_of(const Share& share, const Tensor& experts_TK) {
  return parallel::counting_up(experts_TK.select(1, 0)).add_(share.first);
}
Tensor Experts::samples_of(const Share& share, const Tensor& experts_TK) {
  return places_of(share, experts_TK).floor_divide(share.positions);
}

// Note [Balance]
// Of a sequence of n tokens, of which c_e chose expert e, the loss is the sum over e of E c_e / (k n) times
// the mean score of e. Counts have no derivative, so that the sum over tokens is one of terms that each rank
// has for its own; only the counts must be those of the whole sequence. Times n it is a sum over tokens, like
// any other loss, and is divided by all tokens that are no padding. Over the global batch it is the same of
// one sequence that has all its tokens: which is why all of them must have chosen before a backward begins.
void Experts::add_losses(const Tensor& logits_TE, const parallel::Routing& routing, const Tensor& experts_TK,
                         const Share& share, const Batch& batch, std::vector<Tensor>& losses) const {
  // Generation has no losses, and its ranks need not come together.
  if (spec_.has_balance_loss() && batch.order_T.defined()) {
    const bool is_by_sample = spec_.balance == spec::Balance::sequence;
    Tensor samples_T = samples_of(share, experts_TK);
    if (!is_by_sample) samples_T.zero_();
    const std::int64_t sequences = is_by_sample ? batch.samples : 1;
    Tensor loads_BE = parallel::loads(experts_TK, samples_T, sequences, spec_.experts).contiguous();
    (is_by_sample ? context_.same_samples : context_.batch).group.all_reduce_sum(loads_BE);
    Tensor share_BE = loads_BE.to(logits_TE.scalar_type());
    const auto experts = static_cast<double>(spec_.experts);
    share_BE.div_(share_BE.sum(1, true).clamp_min_(1)).mul_(experts * spec_.balance_weight);
    Tensor scores_TE = routing.scores_TE;
    if (rule_.scores == parallel::RouterRule::Scores::sigmoid)
      scores_TE = scores_TE.div(scores_TE.sum(1, true).add(1e-20));
    Tensor terms_TE = scores_TE.mul(share_BE.index_select(0, samples_T));
    if (batch.counted_T.defined()) terms_TE = terms_TE.mul(experts_TK.narrow(1, 0, 1).ge(0));
    losses.push_back(terms_TE.sum());
  }
  if (spec_.router_z_weight > 0) {
    Tensor squares_T = logits_TE.logsumexp(1).square();
    if (batch.counted_T.defined()) squares_T = squares_T.mul(experts_TK.select(1, 0).ge(0));
    losses.push_back(squares_T.sum().mul(spec_.router_z_weight));
  }
}

}  // namespace tessera::model
