// The GPT-2 family: LayerNorm, learnt positions, GELU, biases everywhere, tied or untied embeddings.
#include "tessera/base/error.hpp"
#include "tessera/model/attention.hpp"
#include "tessera/model/family.hpp"
#include "tessera/model/step_unit.hpp"
#include "tessera/parallel/dropout.hpp"
#include "tessera/parallel/layers.hpp"
#include "tessera/parallel/stream_norm.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::model {

namespace {

using parallel::Dropout;
using parallel::ParallelContext;
using shard::find_weight;
using shard::FlatBucket;
using shard::Weight;

struct Norm {
  Norm(std::span<FlatBucket> buckets, const std::string& name, double epsilon)
      : weight(find_weight(buckets, name + ".weight")),
        bias(find_weight(buckets, name + ".bias")),
        epsilon(epsilon) {}
  Tensor operator()(const Tensor& x, Tape& tape, const ParallelContext& context) const {
    return parallel::layer_norm(x, tape.wide_leaf(weight), tape.wide_leaf(bias), epsilon,
                                context.grid.stream_channels.group);
  }
  Weight &weight, &bias;
  double epsilon;
};

// One product of matrices that lie side by side, with their biases.
struct Linear {
  Linear(std::span<FlatBucket> buckets, const std::string& block, const std::vector<const char*>& parts)
      : weight(find_weight(buckets, names(block, parts, ".weight"))),
        bias(find_weight(buckets, names(block, parts, ".bias"))) {}
  Tensor of_entering(const std::string& x, const StepCall& v, const ParallelContext& context) const {
    return parallel::entering_linear(v[x], {{{&weight, &bias}}}, v.tape.work, context, v.result);
  }
  // What each rank adds to a sum on the stream, and what is left to do with the sum: its bias, unless one
  // rank has all of the product.
  Tensor part(const std::string& x, const StepCall& v, const ParallelContext& context) const {
    return parallel::leaving_linear(v[x], weight, v.tape.work, context,
                                    context.tp.group.size() == 1 ? &bias : nullptr, v.result);
  }
  Tensor finished(const Tensor& sum, Tape& tape, const ParallelContext& context) const {
    return parallel::add_bias(sum, context.tp.group.size() == 1 ? nullptr : &bias, tape.work);
  }
  static std::vector<std::string> names(const std::string& block, const std::vector<const char*>& parts,
                                        const char* what) {
    std::vector<std::string> out;
    for (const char* part : parts) out.push_back(cat(block, part, "_proj", what));
    return out;
  }
  Weight &weight, &bias;
};

class EmbeddingUnit final : public Unit {
 public:
  EmbeddingUnit(const spec::Model& spec, const RankModel& held)
      : context_(held.context),
        tokens_(find_weight(held.buckets, "transformer.wte.weight")),
        positions_(find_weight(held.buckets, "transformer.wpe.weight")),
        drop_(spec.dropout, held.seed, 0, Dropout::Place::embedding) {}
  Outcome forward(std::size_t, std::size_t, std::vector<Tensor>, const Batch& batch, Tape& tape) override {
    const Tensor tokens =
        parallel::embedding_to_stream(batch.tokens_T, tokens_, tape.anchor(), tape.work, context_);
    const Tensor x = tokens.add(
        parallel::embedding(places_T(batch, tokens.size(0)), positions_, tape.anchor(), tape.work));
    return {{drop_(x, stream_rows(context_, batch.sample_indices_B, x.size(1)))}, {}};
  }

 private:
  // Of so many rows of the stream.
  Tensor places_T(const Batch& batch, std::int64_t rows) const {
    if (const Tensor after_B = positions_after_cache(batch); after_B.defined()) return after_B;
    const std::int64_t per_sample = batch.tokens_T.size(0) / batch.samples;
    const std::int64_t first = first_of_stream(context_, batch.tokens_T.size(0));
    Tensor places = tensor::empty({rows}, at::kLong);
    auto* out = places.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t place = context_.positions[static_cast<std::size_t>((first + i) % per_sample)];
      out[i] = place - batch.documents.begin_of((first + i) / per_sample, place);
    }
    return tensor::on_device(places, batch.tokens_T.device());
  }

  const ParallelContext& context_;
  Weight &tokens_, &positions_;
  Dropout drop_;
};

class BlockUnit final : public StepUnit {
 public:
  BlockUnit(const program::Unit& described, const spec::Model& spec, std::int64_t layer,
            const RankModel& held)
      : StepUnit(described, held.context),
        heads_(spec.heads / held.channel_ranks),
        layer_(static_cast<std::size_t>(layer)),
        name_(cat("transformer.h.", layer, ".")),
        norm_1_(held.buckets, name_ + "ln_1", spec.norm_epsilon),
        qkv_(held.buckets, name_, {"attn.q", "attn.k", "attn.v"}),
        out_(held.buckets, name_, {"attn.out"}),
        norm_2_(held.buckets, name_ + "ln_2", spec.norm_epsilon),
        up_(held.buckets, name_, {"mlp.up"}),
        down_(held.buckets, name_, {"mlp.down"}),
        drop_attention_(spec.dropout, held.seed, layer + 1, Dropout::Place::attention),
        drop_mlp_(spec.dropout, held.seed, layer + 1, Dropout::Place::mlp) {
    add("norm_1", [this](const StepCall& v) { return norm_1_(v["hidden"], v.tape, context()); });
    add("qkv", [this](const StepCall& v) { return qkv_.of_entering("entering_1", v, context()); });
    add("attention", [this](const StepCall& v) {
      return attend(parallel::split(v["qkv"], v.branch.samples, heads_), v.branch, {layer_}, context().cp,
                    v.result);
    });
    add("out", [this](const StepCall& v) { return out_.part("attended", v, context()); });
    add("add_1", [this](const StepCall& v) {
      return v["hidden"].add(drop_attention_(out_.finished(v["attended_sums"], v.tape, context()),
                                             rows_of(v["hidden"], v.batch)));
    });
    add("norm_2", [this](const StepCall& v) { return norm_2_(v["middle"], v.tape, context()); });
    add("up", [this](const StepCall& v) { return up_.of_entering("entering_2", v, context()); });
    add("gelu", [](const StepCall& v) { return tensor::gelu(v["up"]); });
    add("down", [this](const StepCall& v) { return down_.part("activated", v, context()); });
    add("add_2", [this](const StepCall& v) {
      return v["middle"].add(
          drop_mlp_(down_.finished(v["fed_sums"], v.tape, context()), rows_of(v["middle"], v.batch)));
    });
    check_complete();
  }

 private:
  parallel::Rows rows_of(const Tensor& stream, const Batch& batch) const {
    return stream_rows(context(), batch.sample_indices_B, stream.size(1));
  }

  std::int64_t heads_;
  std::size_t layer_;
  std::string name_;
  Norm norm_1_;
  Linear qkv_, out_;
  Norm norm_2_;
  Linear up_, down_;
  Dropout drop_attention_, drop_mlp_;
};

class HeadUnit final : public Head {
 public:
  HeadUnit(const spec::Model& spec, const RankModel& held)
      : context_(held.context),
        norm_(held.buckets, "transformer.ln_f", spec.norm_epsilon),
        table_(
            find_weight(held.buckets, spec.tied_embeddings ? "transformer.wte.weight" : "lm_head.weight")) {}

  Outcome forward(std::size_t, std::size_t, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) override {
    return {{},
            {parallel::vocabulary_loss(norm_(values.at(0), tape, context_), table_,
                                       branch_targets_T(batch, context_), tape.work, context_,
                                       batch.head_gradient_factor)}};
  }
  Tensor logits(const Tensor& x) const override {
    Tape tape;
    return parallel::logits(norm_(x, tape, context_), table_, context_.tp.group);
  }

 private:
  const ParallelContext& context_;
  Norm norm_;
  Weight& table_;
};

}  // namespace

Model make_gpt2(const spec::Model& spec, const program::Tables& tables, const RankModel& held) {
  Model model(tables.units.size());
  if (held.units.front()) model.front() = std::make_unique<EmbeddingUnit>(spec, held);
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    if (const auto unit = static_cast<std::size_t>(layer) + 1; held.units[unit])
      model[unit] = std::make_unique<BlockUnit>(tables.units[unit], spec, layer, held);
  if (held.units.back()) model.back() = std::make_unique<HeadUnit>(spec, held);
  return model;
}

}  // namespace tessera::model
