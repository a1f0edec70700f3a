#include "tessera/families/families.hpp"

#include <algorithm>
#include <array>

#include "tessera/plan/model/open.hpp"
#include "tessera/plan/model/open_experts.hpp"

namespace tessera::families {
namespace {

using plan::Blueprint;

#define FAMILY(name, ...) plan::name##_blueprint,
constexpr auto kBlueprints = std::to_array<Blueprint (*)(const spec::Run&)>({
#include "tessera/spec/families.def"
});
#undef FAMILY

}  // namespace

Blueprint blueprint(const spec::Run& run) {
  Blueprint out = kBlueprints.at(static_cast<std::size_t>(run.model.family))(run);
  const auto cut_samples = [&](program::Unit& unit) {
    for (program::Piece& piece : unit.pieces) piece.token_parts *= run.layout.tp_samples();
  };
  cut_samples(out.embedding);
  std::ranges::for_each(out.blocks, cut_samples);
  for (program::Unit& block : out.blocks) {
    if (run.layout.tp_overlap) block = open(block, out.head.pieces.front(), plan::Sizes(run));
    if (run.layout.ep_overlap) block = plan::open_experts(block, run);
  }
  return out;
}

std::span<const checkpoint::ForeignFamily> foreign_families() {
#define FAMILY(name, ...) checkpoint::name##_files(),
  static const auto list = std::to_array<checkpoint::ForeignFamily>({
#include "tessera/spec/families.def"
  });
#undef FAMILY
  return list;
}

const checkpoint::ForeignFamily& foreign_family(spec::Family family) {
  return foreign_families()[static_cast<std::size_t>(family)];
}

}  // namespace tessera::families
