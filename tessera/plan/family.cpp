#include "tessera/plan/family.hpp"

#include "tessera/base/error.hpp"

namespace tessera::plan {

LaidParameter rows_cut(program::Parameter parameter, Lies lies) {
  parameter.cut_dim = 0;
  return {std::move(parameter), lies};
}

LaidParameter columns_cut(program::Parameter parameter) {
  parameter.cut_dim = 1;
  return {std::move(parameter), Lies::cut};
}

Blueprint blueprint(const spec::Run& run) {
  switch (run.model.family) {
    case spec::Family::llama:
      return llama_blueprint(run);
    case spec::Family::gpt2:
      return gpt2_blueprint(run);
  }
  throw Bug("a family outside its enumeration");
}

}  // namespace tessera::plan
