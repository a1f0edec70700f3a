// The feed-forward part of a block with experts: routes tokens, sends them to the ranks of their experts, and
// adds up what comes back.
#pragma once

#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/model/family.hpp"
#include "tessera/parallel/experts/dispatch.hpp"
#include "tessera/parallel/experts/router.hpp"

namespace tessera::model {

struct ExpertWeights {
  shard::Weight &router_EH, &gate_up_E2FH, &down_EHF;
  shard::Weight* bias_E = nullptr;  // of the choice; null: none
};

class Experts {
 public:
  using Result = collective::Result;

  // `context` must outlive it.
  Experts(const spec::Model& spec, std::size_t layer, const ExpertWeights& weights,
          const parallel::ParallelContext& context);
  // Of tokens as they lie on the stream. Appends the losses that the plan lists for it.
  Tensor operator()(const Tensor& x_TH, const Batch& batch, Tape& tape, std::vector<Tensor>& losses,
                    Result result) const;

  // The same in parts, between which rows travel (plan/model/open_experts.hpp): the rows that are sent and
  // the weights of choices (a recomputation sends rows the ways that its forward found); what experts make of
  // the rows that arrive; the sum of what comes back.
  std::vector<Tensor> route(const Tensor& x_TH, const Batch& batch, Tape& tape,
                            std::vector<Tensor>& losses) const;
  Tensor run(const Tensor& rows, const Batch& batch, Tape& tape) const;
  Tensor combine(const Tensor& rows, const Tensor& weights_TK, const Batch& batch, Result result) const;
  const parallel::Dispatch& dispatch(const Batch& batch) const;

 private:
  // The tokens that this rank routes: those of the stream, or of them its share among the ranks of tp.
  struct Share {
    std::vector<std::int64_t> rows;                    // of each rank of tp
    std::int64_t first = 0, count = 0, positions = 0;  // of the rank; of a sample, on all ranks of tp
    // Of what all tokens of tp's ranks have, that of these; undefined stays so.
    Tensor of(const Tensor& all_T) const { return all_T.defined() ? all_T.narrow(0, first, count) : all_T; }
  };
  struct Routed {
    Tensor x_TH, weights_TK;  // of the tokens that this rank routes
    parallel::Dispatch dispatch;
  };
  Routed routed(const Tensor& x_TH, const Share& share, const Batch& batch, Tape& tape,
                std::vector<Tensor>& losses, const parallel::Dispatch* there = nullptr) const;
  bool slices_tokens() const { return context_.tp.group.size() > 1 && !context_.cuts_stream; }
  Tensor fed(const Tensor& rows, const parallel::Dispatch& dispatch, Tape& tape) const;
  Tensor on_stream(const Tensor& out, const Share& share, Result result) const;
  Share share_of(std::int64_t tokens, const Batch& batch) const;
  void add_loads(const Tensor& chosen_TK, const Tensor& sent_TK, ByLayer& loads) const;
  static Tensor places_of(const Share& share, const Tensor& experts_TK);
  static Tensor samples_of(const Share& share, const Tensor& experts_TK);
  parallel::Routing chosen(const Tensor& logits_TE, const Share& share, const Batch& batch) const;
  void add_losses(const Tensor& logits_TE, const parallel::Routing& routing, const Tensor& experts_TK,
                  const Share& share, const Batch& batch, std::vector<Tensor>& losses) const;

  const spec::Model& spec_;
  std::size_t layer_;
  ExpertWeights weights_;
  parallel::RouterRule rule_;
  const parallel::ParallelContext& context_;
};

}  // namespace tessera::model
