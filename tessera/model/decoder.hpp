// What Llama and the families after it share: grouped queries with rotary positions, SwiGLU, RMSNorm, tied or
// untied embeddings. A family's block adds the steps in which it differs.
#pragma once

#include "tessera/model/experts.hpp"
#include "tessera/model/family.hpp"
#include "tessera/model/step_unit.hpp"
#include "tessera/parallel/dropout.hpp"
#include "tessera/parallel/layers.hpp"

namespace tessera::model {

// Has the step out (attended to attended_sums).
class DecoderBlock : public StepUnit {
 public:
  Tensor exchanged(std::size_t piece, const Tensor& rows, bool is_gradient, const Batch& batch,
                   const collective::Group& group) const override;

 protected:
  DecoderBlock(const program::Unit& described, const spec::Model& spec, std::int64_t layer,
               const RankModel& held, const parallel::Rotary& rotary);

  // Of these parts of the layer, which lie side by side.
  shard::Weight& weight(const std::vector<std::string>& parts, const char* kind = "weight") const;
  // The step qkv (of entering_1).
  void add_projections();
  // The steps up (of entering_2), gate and down (to fed_sums); or experts (to fed_sums), if the layer has
  // them, with shared ones too. Returns what is added to the stream in the end.
  std::string add_feed_forward();
  // The step `name`: RMSNorm of the value.
  void add_norm(const std::string& name, const std::string& value, shard::Weight& weight);
  // The steps add_1 and add_2: these values to the stream, after dropout.
  void add_sums(const std::string& attended, const std::string& fed);
  // Attention of the heads of q, k and v, as they are turned, over the call's branch.
  Tensor attend(const parallel::Heads& heads, const StepCall& v) const;
  // The rotary tables of the batch's positions.
  parallel::Rotary turn(const Tensor& qkv, const Batch& batch) const;

  const spec::Model& spec_;
  const std::size_t layer_;
  const std::int64_t heads_, kv_heads_;  // of this rank
  const std::int64_t key_copies_;        // ranks of tp that hold the same keys and values

 private:
  std::vector<parallel::Projection> projections() const;

  std::span<shard::FlatBucket> buckets_;
  parallel::Rotary rotary_;
  std::vector<parallel::Projection> qkv_;
  shard::Weight& out_;
  std::optional<Experts> experts_;
  parallel::Dropout drop_attention_, drop_mlp_;
};

// Embedding, blocks and head, where this rank holds them; `block` makes the block of a layer.
using BlockMaker =
    std::function<std::unique_ptr<Unit>(const program::Unit&, std::int64_t layer, const parallel::Rotary&)>;
Model make_decoder(const spec::Model& spec, const program::Tables& tables, const RankModel& held,
                   const BlockMaker& block);
// Of blocks of one class.
template <typename Block>
Model make_decoder(const spec::Model& spec, const program::Tables& tables, const RankModel& held) {
  return make_decoder(
      spec, tables, held,
      [&](const program::Unit& described, std::int64_t layer, const parallel::Rotary& rotary) {
        return std::make_unique<Block>(described, spec, layer, held, rotary);
      });
}

}  // namespace tessera::model
