#include "tessera/verify/shrink.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "tessera/base/text.hpp"
#include "tessera/spec/splits.hpp"

namespace tessera::train {

namespace {

std::int64_t rounded_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// At least so many that the layout can still share them and their queries.
std::int64_t fewest_kv_heads(spec::Run run, std::int64_t at_least) {
  const std::int64_t most = run.model.kv_heads, queries = run.model.heads / most;
  run.model.head_dim = run.model.head_size();
  for (run.model.kv_heads = at_least; run.model.kv_heads < most; ++run.model.kv_heads) {
    run.model.heads = run.model.kv_heads * queries;
    if (spec::split_problems(run).empty()) break;
  }
  return run.model.kv_heads;
}

// Fewer and smaller micro-batches, the last ones as full or empty as they were.
void cut_batch(spec::Run& run, const std::function<void(const char*, std::int64_t&, std::int64_t)>& cut) {
  if (!run.layout.micro_batches_by_rank.empty()) return;  // which says how many there are
  // Enough for a pipeline to have a start, a middle and an end.
  constexpr std::int64_t kMostSamples = 4;
  const std::int64_t most_micro_batches = std::max<std::int64_t>(5, 2 * run.layout.pp + 1);
  auto& batch = run.training.global_batch;
  const std::int64_t before = run.layout.micro_batch;
  cut("micro_batch", run.layout.micro_batch, rounded_up(kMostSamples, run.layout.tp_samples()));
  cut("global_batch", batch, (batch * run.layout.micro_batch + before - 1) / before);
  const std::int64_t round = run.layout.dp() * run.layout.micro_batch, rest = batch % round;
  if (run.layout.schedule_file.empty())  // which has its number of micro-batches
    cut("global_batch", batch,
        rest == 0 ? most_micro_batches * round : (most_micro_batches - 1) * round + rest);
}

}  // namespace

spec::Run shrunk_for_verification(const spec::Run& run, std::string& note, const Smallest& smallest) {
  spec::Run small = run;
  small.layout.precision = spec::Precision::fp64;
  small.training.warmup_steps = 0;
  std::vector<std::string> changes;
  // What a budget makes of the large model says nothing about the small one.
  if (small.layout.recompute == spec::Recompute::budget) {
    small.layout.recompute = spec::Recompute::full;
    changes.push_back("recompute budget -> full");
  }
  small.layout.memory_limit_mib = 0;
  const auto cut = [&](const char* name, std::int64_t& value, std::int64_t most) {
    if (value <= most) return;
    changes.push_back(cat(name, " ", value, " -> ", most));
    value = most;
  };
  auto& m = small.model;
  if (!m.weights.empty()) changes.push_back("weights drawn, not read");
  m.weights.clear();
  // Blocks of 3d cut the inputs of a product twice.
  const std::int64_t q = small.layout.in_blocks() ? small.layout.tp_channels() : 1;
  const std::int64_t head_dim = std::min(m.head_size(), rounded_up(smallest.head_dim, 2 * q)),
                     queries = m.heads / m.kv_heads;
  // A width of q that is not hidden's stays another.
  const std::int64_t extra = m.query_size() == m.hidden ? 0 : 8 * q * q;
  cut("kv_heads", m.kv_heads, fewest_kv_heads(small, std::max<std::int64_t>(1, smallest.heads / queries)));
  cut("heads", m.heads, m.kv_heads * queries);
  cut("head_dim", m.head_dim, head_dim);
  cut("hidden", m.hidden, m.heads * head_dim + extra);
  if (m.kv_rank > 0) {
    // Some channels stay unturned, and values narrower than keys stay so.
    cut("rope_dim", m.rope_dim, std::max<std::int64_t>(2, head_dim / 4 * 2));
    cut("value_dim", m.value_dim, run.model.value_size() < run.model.head_size() ? head_dim - 2 : head_dim);
    cut("q_rank", m.q_rank, head_dim + 4);
    cut("kv_rank", m.kv_rank, head_dim);
  }
  const auto tp = small.layout.tp;
  cut("ffn", m.ffn, rounded_up(std::min(smallest.ffn, 3 * m.hidden), tp));
  if (m.experts > 0) {
    const auto ep = small.layout.ep, etp = small.layout.etp;
    m.expert_ffn = m.expert_width();
    cut("expert_ffn", m.expert_ffn, rounded_up(std::min(smallest.ffn, 2 * m.hidden), etp * tp));
    // Groups as many as they were, and more experts than a token goes to.
    const std::int64_t of_group =
        std::max<std::int64_t>(2, (m.experts_per_token + m.router_groups_kept) / m.router_groups_kept);
    cut("experts", m.experts, rounded_up(m.router_groups * of_group, std::lcm(ep, m.router_groups)));
    cut("dense_layers", m.dense_layers, 1);
  }
  // Every stage keeps a unit, embedding and head among them.
  const bool dealt_by_hand = !small.layout.stages.empty() || !small.layout.schedule_file.empty();
  if (!dealt_by_hand)
    cut("layers", m.layers, std::max<std::int64_t>(3, small.layout.pp * small.layout.num_virtual() - 1));
  // Documents of tokenized sources become such as a byte ends; the byte that ends one stays a token.
  if (!small.data.sources.empty()) small.data = {.seed = small.data.seed, .document_end = "\n"};
  small.evaluation = {};
  const auto& end = small.data.document_end;
  const std::int64_t last = end.empty() ? 0 : static_cast<unsigned char>(end.front());
  cut("vocab", m.vocab, rounded_up(std::max(smallest.vocab, last + 1), tp));
  cut("sequence", m.sequence, rounded_up(smallest.sequence, 2 * small.layout.cp * tp));
  // A window that is shorter than the sequence stays so, and ends within chunks.
  if (run.model.sliding_window > 0 && run.model.sliding_window < run.model.sequence)
    cut("sliding_window", m.sliding_window,
        std::max<std::int64_t>(2, run.model.sliding_window * m.sequence / run.model.sequence));
  cut_batch(small, cut);
  note = join(changes, ", ");
  return small;
}

}  // namespace tessera::train
