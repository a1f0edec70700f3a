#include "tessera/plan/family.hpp"

#include "tessera/base/error.hpp"

namespace tessera::plan {

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
