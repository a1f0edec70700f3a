#include "tessera/spec/spec.hpp"

#include <algorithm>
#include <charconv>

#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/family.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::spec {

std::int64_t Model::window_of(std::int64_t layer) const {
  const auto at = static_cast<std::size_t>(layer);
  const bool slides = window_layers.empty() || window_layers[at % window_layers.size()] == 'w';
  return slides && sliding_window < sequence ? sliding_window : 0;
}

std::string Model::windows() const {
  std::string out;
  if (sliding_window == 0) return out;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer)
    out += window_layers.empty() ? 'w' : window_layers[layer % window_layers.size()];
  return out;
}

namespace {
// As a run file that does not name them has them.
void reset(const std::vector<std::string>& keys, Model& model) {
  Run changed{.model = model};
  for (const std::string& full : keys) {
    const Key* key = find_key(full);
    key->set(changed, key->get(Run()));
  }
  model = changed.model;
}
}  // namespace

Model in_one_form(Model model) {
  const Model plain;
  model.head_dim = model.head_size();
  const FamilyTraits& family = traits(model.family);
  if (family.no_grouped_queries) model.kv_heads = model.heads;
  if (!family.no_rotary.empty()) {
    model.rope_theta = plain.rope_theta;
    model.rope_scaling_factor = plain.rope_scaling_factor;
  }
  if (!family.no_window.empty()) model.sliding_window = plain.sliding_window;
  if (!family.no_qkv_bias.empty()) model.qkv_bias = plain.qkv_bias;
  if (!family.no_qk_norm.empty()) model.qk_norm = plain.qk_norm;
  if (!family.no_latent.empty()) {
    model.q_rank = plain.q_rank, model.kv_rank = plain.kv_rank;
    model.rope_dim = plain.rope_dim, model.value_dim = plain.value_dim;
    model.attention_scale = plain.attention_scale;
    model.mtp_layers = plain.mtp_layers;
  } else {
    model.rope_dim = model.turned_size(), model.value_dim = model.value_size();
  }
  if (model.experts == 0)
    reset(expert_keys(), model);
  else
    model.expert_ffn = model.expert_width();
  if (!model.has_balance_loss()) model.balance_weight = plain.balance_weight;
  if (model.balance != Balance::bias) model.balance_rate = plain.balance_rate;
  if (model.mtp_layers == 0) model.mtp_weight = plain.mtp_weight;
  model.window_layers = model.windows();
  if (model.rope_scaling_factor == 1) model.rope_scaling = plain.rope_scaling;
  if (model.rope_scaling_factor == 1 || model.rope_scaling == RopeScaling::linear) {
    model.rope_low_frequency_factor = plain.rope_low_frequency_factor;
    model.rope_high_frequency_factor = plain.rope_high_frequency_factor;
    model.rope_original_context = plain.rope_original_context;
  }
  return model;
}

std::int64_t tp_kv(const Model& model, const Layout& layout) {
  return std::min(layout.tp_channels(), model.kv_heads);
}
std::int64_t tp_rep(const Model& model, const Layout& layout) {
  return layout.tp_channels() / tp_kv(model, layout);
}

std::int64_t Cluster::loss_chunk_tokens() const { return traits(transport).uses_gpus ? 2048 : 512; }

namespace {
// The largest number whose power is at most `size`.
std::int64_t root(std::int64_t size, int power) {
  const auto power_of = [&](std::int64_t base) { return power == 2 ? base * base : base * base * base; };
  std::int64_t out = 1;
  while (power_of(out + 1) <= size) ++out;
  return out;
}
}  // namespace

std::optional<int> Layout::worker_of(int rank) const {
  const auto place = static_cast<int>(rank / tp % (dp() + servers));
  return place < dp() ? std::optional(place) : std::nullopt;
}

int Layout::replica_of(int rank) const {
  return static_cast<int>(rank / (ranks() / pp / dp_replicate) % dp_replicate);
}

std::vector<int> Layout::ranks_of_replica(int replica) const {
  std::vector<int> out;
  for (int rank = 0; rank < ranks(); ++rank)
    if (replica_of(rank) == replica) out.push_back(rank);
  return out;
}

Run Run::of_replica() const {
  Run out = *this;
  if (training.local_steps == 0) return out;
  out.training.global_batch /= layout.dp_replicate;
  out.layout.dp_replicate = 1;
  return out;
}

TensorGrid Layout::grid() const {
  switch (tp_kind) {
    case TensorKind::d1:
      return {1, tp, 1};
    case TensorKind::d2:
      return {root(tp, 2), root(tp, 2), 1};
    case TensorKind::d25: {
      const std::int64_t side = root(tp / tp_depth, 2);
      return {side, side, tp_depth};
    }
    case TensorKind::d3:
      break;
  }
  const std::int64_t side = root(tp, 3);
  return {side, side, side};
}

std::int64_t Layout::num_virtual() const {
  if (virtual_stages > 0) return virtual_stages;
  const std::int64_t required = entry(schedule).num_virtual;
  return required > 0 ? required : 2;
}

bool offloads(const Layout& layout, Offload what) {
  const auto names = split_list(layout.offload);
  return std::find(names.begin(), names.end(), word(what)) != names.end();
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::size_t first = text.find_first_not_of(' ', at), last = text.find_last_not_of(' ', end - 1);
    if (first < end) out.push_back(text.substr(first, last - first + 1));
    at = end + 1;
  }
  return out;
}

std::optional<std::vector<std::int64_t>> split_numbers(const std::string& text) {
  std::vector<std::int64_t> out;
  for (const std::string& word : split_list(text)) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 0) return std::nullopt;
    out.push_back(value);
  }
  return out;
}

std::vector<std::int64_t> Layout::unequal_micro_batches() const {
  return split_numbers(micro_batches_by_rank).value_or(std::vector<std::int64_t>());
}

std::int64_t Layout::num_micro_batches(std::int64_t global_batch) const {
  if (!micro_batches_by_rank.empty())
    if (const auto by_rank = unequal_micro_batches(); !by_rank.empty())
      return std::max<std::int64_t>(1, *std::max_element(by_rank.begin(), by_rank.end()));
  // One division at a time, since the product of the parts may not fit into 64 bits.
  std::int64_t out = global_batch;
  for (const std::int64_t part : {dp_replicate, dp_shard, micro_batch}) out = out / part + (out % part != 0);
  return out;
}

}  // namespace tessera::spec
