#include "tessera/model/make/make.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/error.hpp"

namespace tessera::model {
namespace {

using Maker = Model (*)(const spec::Model&, const program::Tables&, const RankModel&);
#define FAMILY(name, ...) make_##name,
constexpr auto kMakers = std::to_array<Maker>({
#include "tessera/spec/families.def"
});
#undef FAMILY

}  // namespace

Model make(const spec::Model& spec, const program::Tables& tables, const RankModel& held) {
  TESSERA_CHECK(tables.units.size() == static_cast<std::size_t>(spec.layers) + 2,
                "units do not match the model's layers");
  return kMakers.at(static_cast<std::size_t>(spec.family))(spec, tables, held);
}

Tensor logits(Model& model, const program::Tables& tables, const Batch& batch, const Tensor& rows) {
  for (const program::Unit& unit : tables.units)
    for (const program::Piece& piece : unit.pieces)
      TESSERA_CHECK(piece.exchanges.empty(), "logits of a model whose ranks share the tokens of ", unit.name);
  TESSERA_CHECK(std::ranges::all_of(model, [](const auto& unit) { return unit != nullptr; }),
                "logits of a model that is spread over stages");
  const at::NoGradGuard no_gradient;
  Tape tape;
  std::vector<Tensor> values;
  for (std::size_t unit = 0; unit + 1 < model.size(); ++unit)
    values = model[unit]->forward(0, tables.units[unit].pieces.size(), std::move(values), batch, tape).values;
  const auto* head = dynamic_cast<const Head*>(model.back().get());
  TESSERA_CHECK(head, "the last unit of a model is no head");
  return head->logits(rows.defined() ? values.at(0).index_select(0, rows) : values.at(0));
}

}  // namespace tessera::model
