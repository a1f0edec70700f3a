#include "tessera/model/family.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::model {

Model make(const spec::Run& run, const program::Tables& tables, const RankModel& held) {
  TESSERA_CHECK(tables.units.size() == static_cast<std::size_t>(run.model.layers) + 2,
                "units do not match the model's layers");
  switch (run.model.family) {
    case spec::Family::llama:
      return make_llama(run, tables, held);
    case spec::Family::gpt2:
      return make_gpt2(run, tables, held);
  }
  throw Bug("a family outside its enumeration");
}

Tensor logits(Model& model, const program::Tables& tables, const Batch& batch) {
  for (const program::Unit& unit : tables.units)
    for (const program::Piece& piece : unit.pieces)
      TESSERA_CHECK(
          piece.collectives.empty() && piece.backward_collectives.empty() && piece.exchanges.empty(),
          "logits of a model whose ranks share ", unit.name);
  TESSERA_CHECK(std::ranges::all_of(model, [](const auto& unit) { return unit != nullptr; }),
                "logits of a model that is spread over stages");
  const at::NoGradGuard no_gradient;
  Tape tape;
  std::vector<Tensor> values;
  for (std::size_t unit = 0; unit + 1 < model.size(); ++unit)
    values = model[unit]->forward(0, tables.units[unit].pieces.size(), std::move(values), batch, tape).values;
  const auto* head = dynamic_cast<const Head*>(model.back().get());
  TESSERA_CHECK(head, "the last unit of a model is no head");
  return head->logits(values.at(0));
}

}  // namespace tessera::model
