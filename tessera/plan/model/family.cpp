#include "tessera/plan/model/family.hpp"

#include <set>

#include "tessera/base/error.hpp"
#include "tessera/plan/model/open.hpp"

namespace tessera::plan {

PlacedParameter rows_cut(program::Parameter parameter, TensorPlacement placement) {
  parameter.cut_dim = 0;
  return {std::move(parameter), placement};
}

PlacedParameter columns_cut(program::Parameter parameter) {
  parameter.cut_dim = 1;
  return {std::move(parameter), TensorPlacement::cut};
}

namespace {

Blueprint closed_blueprint(const spec::Run& run) {
  switch (run.model.family) {
    case spec::Family::llama:
      return llama_blueprint(run);
    case spec::Family::gpt2:
      return gpt2_blueprint(run);
  }
  throw Bug("a family outside its enumeration");
}

}  // namespace

Blueprint blueprint(const spec::Run& run) {
  Blueprint out = closed_blueprint(run);
  if (!run.layout.tp_overlap) return out;
  for (std::size_t i = 0; i < out.blocks.size(); ++i) {
    std::set<std::string> on_stream;
    for (const auto& [parameter, placement] : out.block_vectors[i])
      if (placement == TensorPlacement::by_stream) on_stream.insert(parameter.name);
    out.blocks[i] = open(out.blocks[i], out.head.pieces.front(), Sizes(run), on_stream);
  }
  return out;
}

}  // namespace tessera::plan
