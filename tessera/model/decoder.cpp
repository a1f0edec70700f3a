#include "tessera/model/decoder.hpp"

#include "tessera/base/text.hpp"
#include "tessera/model/attention.hpp"
#include "tessera/parallel/stream_norm.hpp"

namespace tessera::model {
namespace {

using parallel::Dropout;
using parallel::ParallelContext;
using parallel::Projection;
using parallel::Rotary;
using shard::find_weight;
using shard::Weight;

parallel::Scaling scaling_of(spec::RopeScaling scaling) {
  switch (scaling) {
    case spec::RopeScaling::llama3:
      return parallel::Scaling::llama3;
    case spec::RopeScaling::linear:
      return parallel::Scaling::linear;
    case spec::RopeScaling::yarn:
      break;
  }
  return parallel::Scaling::yarn;
}

class EmbeddingUnit final : public Unit {
 public:
  EmbeddingUnit(const spec::Model& spec, const RankModel& held)
      : context_(held.context),
        table_(find_weight(held.buckets, "model.embed_tokens.weight")),
        drop_(spec.dropout, held.seed, 0, Dropout::Place::embedding) {}
  Outcome forward(std::size_t, std::size_t, std::vector<Tensor>, const Batch& batch, Tape& tape) override {
    const Tensor x =
        parallel::embedding_to_stream(batch.tokens_T, table_, tape.anchor(), tape.work, context_);
    return {{drop_(x, stream_rows(context_, batch.sample_indices_B, x.size(1)))}, {}};
  }

 private:
  const ParallelContext& context_;
  Weight& table_;
  Dropout drop_;
};

// See plan/model/ahead.hpp.
class Ahead {
 public:
  Ahead(const spec::Model& spec, const program::Unit& head, const RankModel& held,
        const std::function<std::unique_ptr<Unit>(const program::Unit&)>& block)
      : spec_(spec),
        context_(held.context),
        described_{cat("block.", spec.layers), block_pieces(head)},
        block_(block(described_)),
        embedding_(find_weight(held.buckets, "model.embed_tokens.weight")),
        matrix_(weight(held, "eh_proj")),
        embedding_norm_(weight(held, "enorm")),
        stream_norm_(weight(held, "hnorm")),
        norm_(weight(held, "shared_head.norm")) {}

  // Of what the head reads.
  Tensor joined(const Tensor& normed, const Batch& batch, Tape& tape) const {
    const Tensor next =
        parallel::embedding_to_stream(batch.tokens_ahead_T, embedding_, tape.anchor(), tape.work, context_);
    const auto norm = [&](const Tensor& x, Weight& weight) {
      return tensor::rms_norm(x, tape.leaf(weight), spec_.norm_epsilon);
    };
    return parallel::linear(tensor::concatenate({norm(next, embedding_norm_), norm(normed, stream_norm_)}, 1),
                            matrix_, tape.work);
  }
  // Appends the losses of the block, and its own.
  void add_losses(Tensor joined, Weight& table, const Batch& batch, Tape& tape,
                  std::vector<Tensor>& losses) const {
    Outcome made = block_->forward(0, described_.pieces.size(), {std::move(joined)}, batch, tape);
    losses.insert(losses.end(), made.losses.begin(), made.losses.end());
    const Tensor x = tensor::rms_norm(made.values.at(0), tape.leaf(norm_), spec_.norm_epsilon);
    losses.push_back(parallel::vocabulary_loss(x, table, batch.targets_ahead_T, tape.work, context_,
                                               batch.head_gradient_factor)
                         .mul(spec_.mtp_weight));
  }

 private:
  // Those that are made of steps.
  static std::vector<program::Piece> block_pieces(const program::Unit& head) {
    std::vector<program::Piece> out;
    for (const program::Piece& piece : head.pieces)
      if (!piece.steps.empty()) out.push_back(piece);
    return out;
  }
  Weight& weight(const RankModel& held, const char* name) const {
    return find_weight(held.buckets, cat("model.layers.", spec_.layers, ".", name, ".weight"));
  }

  const spec::Model& spec_;
  const ParallelContext& context_;
  program::Unit described_;
  std::unique_ptr<Unit> block_;
  Weight &embedding_, &matrix_, &embedding_norm_, &stream_norm_, &norm_;
};

class HeadUnit final : public Head {
 public:
  HeadUnit(const spec::Model& spec, const RankModel& held, std::unique_ptr<Ahead> ahead)
      : spec_(spec),
        context_(held.context),
        norm_(find_weight(held.buckets, "model.norm.weight")),
        table_(
            find_weight(held.buckets, spec.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight")),
        ahead_(std::move(ahead)) {}

  Outcome forward(std::size_t, std::size_t, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    Tensor x = parallel::rms_norm(values.at(0), tape.leaf(norm_), spec_.norm_epsilon,
                                  context_.grid.stream_channels.group);
    Tensor joined = ahead_ ? ahead_->joined(x, batch, tape) : Tensor();
    Outcome out;
    out.losses.push_back(parallel::vocabulary_loss(x, table_, branch_targets_T(batch, context_), tape.work,
                                                   context_, batch.head_gradient_factor));
    x.reset();
    if (ahead_) ahead_->add_losses(std::move(joined), table_, batch, tape, out.losses);
    return out;
  }
  Tensor logits(const Tensor& x) const override {
    return parallel::logits(tensor::rms_norm(x, norm_.value(), spec_.norm_epsilon), table_,
                            context_.tp.group);
  }

 private:
  const spec::Model& spec_;
  const ParallelContext& context_;
  Weight &norm_, &table_;
  std::unique_ptr<Ahead> ahead_;
};

}  // namespace

DecoderBlock::DecoderBlock(const program::Unit& described, const spec::Model& spec, std::int64_t layer,
                           const RankModel& held, const Rotary& rotary)
    : StepUnit(described, held.context),
      spec_(spec),
      layer_(static_cast<std::size_t>(layer)),
      heads_(spec.heads / held.channel_ranks),
      kv_heads_(spec.kv_heads / held.key_ranks),
      key_copies_(held.channel_ranks / held.key_ranks),
      buckets_(held.buckets),
      rotary_(rotary),
      out_(weight({"self_attn.o_proj"})),
      drop_attention_(spec.dropout, held.seed, layer + 1, Dropout::Place::attention),
      drop_mlp_(spec.dropout, held.seed, layer + 1, Dropout::Place::mlp) {
  add("out", [this](const StepCall& v) {
    return parallel::leaving_linear(v["attended"], out_, v.tape.work, context(), nullptr, v.result);
  });
}

void DecoderBlock::add_projections() {
  qkv_ = projections();
  add("qkv", [this](const StepCall& v) {
    return parallel::entering_linear(v["entering_1"], qkv_, v.tape.work, context(), v.result);
  });
}

std::string DecoderBlock::add_feed_forward() {
  if (spec_.has_experts(static_cast<std::int64_t>(layer_))) {
    const auto stacked = [&](const char* name) -> Weight& {
      return find_weight(buckets_, cat("model.layers.", layer_, ".mlp.", name));
    };
    experts_.emplace(
        spec_, layer_,
        ExpertWeights{
            stacked("gate.weight"), stacked("experts.gate_up_proj"), stacked("experts.down_proj"),
            spec_.balance == spec::Balance::bias ? &stacked("gate.e_score_correction_bias") : nullptr},
        context());
    if (!has_step("router")) {
      add("experts", [this](const StepCall& v) {
        return (*experts_)(v["entering_2"], v.batch, v.tape, v.losses, v.result);
      });
    } else {
      add_wide("router", [this](const StepCall& v) {
        return experts_->route(v["entering_2"], v.batch, v.tape, v.losses);
      });
      add("experts", [this](const StepCall& v) { return experts_->run(v["sent"], v.batch, v.tape); });
      add("combine",
          [this](const StepCall& v) { return experts_->combine(v["made"], v["gates"], v.batch, v.result); });
    }
    if (spec_.shared_experts == 0) return "fed_sums";
    add("join", [](const StepCall& v) { return v["fed_sums"].add(v["routed"]); });
  }
  const std::string part = experts_ ? "mlp.shared_experts." : "mlp.";
  Weight &gate_up = weight({part + "gate_proj", part + "up_proj"}), &down = weight({part + "down_proj"});
  add("up", [this, &gate_up](const StepCall& v) {
    return parallel::entering_linear(v["entering_2"], {{{&gate_up}}}, v.tape.work, context(), v.result);
  });
  add("gate", [](const StepCall& v) { return parallel::swiglu(v["gate_up"]); });
  add("down", [this, &down](const StepCall& v) {
    return parallel::leaving_linear(v["gated"], down, v.tape.work, context(), nullptr, v.result);
  });
  return experts_ ? "fed_all" : "fed_sums";
}

// What was sent to experts comes back as a gradient, and what they made goes to them as one.
Tensor DecoderBlock::exchanged(std::size_t number, const Tensor& rows, bool is_gradient, const Batch& batch,
                               const collective::Group& group) const {
  using Way = parallel::Dispatch::Way;
  const bool is_sent = std::ranges::count(piece(number).writes, "sent") > 0;
  return experts_->dispatch(batch).exchanged(rows, is_sent != is_gradient ? Way::to_experts : Way::back,
                                             group);
}

Weight& DecoderBlock::weight(const std::vector<std::string>& parts, const char* kind) const {
  std::vector<std::string> names;
  for (const std::string& part : parts) names.push_back(cat("model.layers.", layer_, ".", part, ".", kind));
  return find_weight(buckets_, names);
}

// One product, or two if keys and values lie apart from the queries because several ranks share them.
std::vector<Projection> DecoderBlock::projections() const {
  const auto projection = [&](const std::vector<std::string>& parts) {
    return Projection{&weight(parts), spec_.qkv_bias ? &weight(parts, "bias") : nullptr};
  };
  if (key_copies_ == 1) return {projection({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"})};
  return {projection({"self_attn.q_proj"}), projection({"self_attn.k_proj", "self_attn.v_proj"})};
}

void DecoderBlock::add_norm(const std::string& name, const std::string& value, Weight& weight) {
  add(name, [this, value, &weight](const StepCall& v) {
    return parallel::rms_norm(v[value], v.tape.leaf(weight), spec_.norm_epsilon,
                              context().grid.stream_channels.group);
  });
}

void DecoderBlock::add_sums(const std::string& attended, const std::string& fed) {
  const auto add_sum = [this](const char* name, const char* stream, const std::string& branch,
                              const Dropout& drop) {
    add(name, [this, stream, branch, &drop](const StepCall& v) {
      const Tensor& added = v[branch];
      return v[stream].add(drop(added, stream_rows(context(), v.batch.sample_indices_B, added.size(1))));
    });
  };
  add_sum("add_1", "hidden", attended, drop_attention_);
  add_sum("add_2", "middle", fed, drop_mlp_);
}

Tensor DecoderBlock::attend(const parallel::Heads& heads, const StepCall& v) const {
  return model::attend(heads, v.branch, {layer_, spec_.window_of(static_cast<std::int64_t>(layer_))},
                       context().cp, v.result);
}

Rotary DecoderBlock::turn(const Tensor& qkv, const Batch& batch) const {
  if (const Tensor after_B = positions_after_cache(batch); after_B.defined()) {
    const auto of_samples = [&](const Tensor& by_position) {
      return by_position.index_select(0, after_B).unsqueeze(1);
    };
    return {of_samples(rotary_.cos_S1D), of_samples(rotary_.sin_S1H)};
  }
  const std::int64_t positions = qkv.size(0) / batch.samples;
  return {rotary_.cos_S1D.narrow(0, 0, positions), rotary_.sin_S1H.narrow(0, 0, positions)};
}

Model make_decoder(const spec::Model& spec, const program::Tables& tables, const RankModel& held,
                   const BlockMaker& block) {
  const auto dtype = shard::to_torch(tables.buckets.front().compute);
  const parallel::Frequencies frequencies{spec.rope_theta,
                                          spec.rope_scaling_factor,
                                          spec.rope_low_frequency_factor,
                                          spec.rope_high_frequency_factor,
                                          spec.rope_original_context,
                                          scaling_of(spec.rope_scaling),
                                          spec.rope_attention_factor};
  const Rotary rotary = parallel::rotary(held.context.positions, spec.turned_size(), frequencies, dtype,
                                         held.buckets.front().device());
  Model model(tables.units.size());
  if (held.units.front()) model.front() = std::make_unique<EmbeddingUnit>(spec, held);
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    if (const auto unit = static_cast<std::size_t>(layer) + 1; held.units[unit])
      model[unit] = block(tables.units[unit], layer, rotary);
  if (!held.units.back()) return model;
  std::unique_ptr<Ahead> ahead;
  if (spec.mtp_layers > 0)
    ahead = std::make_unique<Ahead>(spec, tables.units.back(), held, [&](const program::Unit& described) {
      return block(described, spec.layers, rotary);
    });
  model.back() = std::make_unique<HeadUnit>(spec, held, std::move(ahead));
  return model;
}

}  // namespace tessera::model
