#include "tessera/plan/model/family.hpp"

namespace tessera::plan {

PlacedParameter rows_cut(program::Parameter parameter, TensorPlacement placement) {
  parameter.cuts = {{.dim = 0}};
  return {std::move(parameter), placement};
}

PlacedParameter columns_cut(program::Parameter parameter) {
  parameter.cuts = {{.dim = 1}};
  return {std::move(parameter), TensorPlacement::cut};
}

}  // namespace tessera::plan
