#include "tessera/families/families.hpp"

#include <algorithm>
#include <array>

#include "tessera/plan/model/open.hpp"
#include "tessera/plan/model/open_experts.hpp"

namespace tessera::families {
namespace {

using plan::ModelPlan;

#define FAMILY(name, ...) plan::name##_plan,
constexpr auto kPlans = std::to_array<ModelPlan (*)(const spec::Model&, const plan::StepShape&)>({
#include "tessera/spec/families.def"
});
#undef FAMILY

}  // namespace

ModelPlan model_plan(const spec::Model& model, const plan::StepShape& shape) {
  const spec::Layout& layout = shape.layout;
  ModelPlan out = kPlans.at(static_cast<std::size_t>(model.family))(model, shape);
  out.sequence = model.sequence;
  out.key_ranks = spec::tp_kv(model, layout);
  const plan::Sizes sizes(model, shape);
  out.hidden_bytes = sizes.r * sizes.h * sizes.c;
  out.sets = plan::InnerSets(model, layout);
  const auto cut_samples = [&](program::Unit& unit) {
    for (program::Piece& piece : unit.pieces) piece.token_parts *= layout.tp_samples();
  };
  cut_samples(out.embedding);
  std::ranges::for_each(out.blocks, cut_samples);
  for (program::Unit& block : out.blocks) {
    if (layout.tp_overlap) block = open(block, out.head.pieces.front(), sizes);
    if (layout.ep_overlap) block = plan::open_experts(block, model, shape);
  }
  return out;
}

plan::StepRequest step_request(const spec::Run& run) {
  return {
      .model = model_plan(run.model, {run.layout, run.cluster.loss_chunk_tokens(), run.data.has_documents()}),
      .layout = run.layout,
      .num_micro = run.num_micro_batches(),
      .optimizer = plan::optimizer_plan(run.training),
      .rates = plan::rates_of(run.cluster)};
}

std::span<const foreign::ForeignFamily> foreign_families() {
#define FAMILY(name, ...) foreign::name##_files(),
  static const auto list = std::to_array<foreign::ForeignFamily>({
#include "tessera/spec/families.def"
  });
#undef FAMILY
  return list;
}

const foreign::ForeignFamily& foreign_family(spec::Family family) {
  return foreign_families()[static_cast<std::size_t>(family)];
}

}  // namespace tessera::families
