#include "tessera/planner/layout_text.hpp"

#include "tessera/base/text.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::planner {

std::vector<std::string> layout_keys(const spec::Layout& layout) {
  const spec::Layout none;
  std::vector<std::string> out;
  const auto add = [&](const char* key, std::int64_t own, std::int64_t usual) {
    if (own != usual) out.push_back(cat("layout.", key, "=", own));
  };
  add("pp", layout.pp, 1), add("dp_replicate", layout.dp_replicate, 1), add("dp_shard", layout.dp_shard, 1);
  add("cp", layout.cp, 1), add("cp_heads", layout.cp_heads, 1), add("tp", layout.tp, 1);
  add("ep", layout.ep, 1), add("etp", layout.etp, 1), add("zero", layout.zero, 0);
  if (layout.tp_kind != none.tp_kind) out.push_back(cat("layout.tp_kind=", spec::word(layout.tp_kind)));
  if (layout.tp_overlap) out.push_back("layout.tp_overlap=true");
  if (layout.ep_overlap) out.push_back("layout.ep_overlap=true");
  if (layout.pp > 1) out.push_back(cat("layout.schedule=", spec::word(layout.schedule)));
  add("virtual_stages", layout.virtual_stages, 0);
  add("micro_batch", layout.micro_batch, 1);
  if (layout.recompute != none.recompute)
    out.push_back(cat("layout.recompute=", spec::word(layout.recompute)));
  if (layout.recompute == spec::Recompute::budget)
    out.push_back(cat("layout.memory_limit_mib=", layout.memory_limit_mib));
  if (!layout.offload.empty()) out.push_back(cat("layout.offload=", layout.offload));
  if (!layout.stages.empty()) out.push_back(cat("layout.stages=", layout.stages));
  if (!layout.micro_batches_by_rank.empty())
    out.push_back(cat("layout.micro_batches_by_rank=", layout.micro_batches_by_rank));
  return out;
}

std::string layout_text(const spec::Layout& layout) {
  std::string out = cat("pp ", layout.pp, ", tp ", layout.tp);
  if (layout.tp_kind != spec::TensorKind::d1) out += cat(" (", spec::word(layout.tp_kind), ")");
  if (layout.cp > 1) out += cat(", cp ", layout.cp);
  if (layout.cp_heads > 1) out += cat(" (", layout.cp_heads, " by heads)");
  if (layout.ep > 1) out += cat(", ep ", layout.ep);
  if (layout.etp > 1) out += cat(", etp ", layout.etp);
  out += cat(", dp ", layout.dp());
  if (layout.zero > 0)
    out += layout.dp_replicate > 1 ? cat(", zero ", layout.zero, " over ", layout.dp_shard)
                                   : cat(", zero ", layout.zero);
  if (layout.pp > 1) {
    out += cat(", ", spec::word(layout.schedule));
    if (layout.virtual_stages > 1) out += cat(" x ", layout.virtual_stages);
  }
  out += cat(", micro-batch ", layout.micro_batch);
  if (layout.recompute != spec::Recompute::none) out += cat(", recompute ", spec::word(layout.recompute));
  if (layout.tp_overlap) out += ", tp overlapped";
  if (layout.ep_overlap) out += ", ep overlapped";
  if (!layout.offload.empty()) out += cat(", offload ", layout.offload);
  constexpr std::size_t kShort = 24;  // of a list that is printed
  if (!layout.stages.empty())
    out += layout.stages.size() < kShort ? cat(", stages ", layout.stages) : ", stages by speed";
  if (!layout.micro_batches_by_rank.empty())
    out += layout.micro_batches_by_rank.size() < kShort
               ? cat(", micro-batches ", layout.micro_batches_by_rank)
               : ", micro-batches by speed";
  return out;
}

}  // namespace tessera::planner
