// The compiler's functions for a run file, as which tests describe what they compile; and one such run.
#pragma once

#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/describe.hpp"

namespace tessera::plan {

inline program::Program compile(const spec::Run& run, std::string* note = nullptr) {
  return compile(families::step_request(run), note);
}

inline program::Program compile_unchecked(const spec::Run& run) {
  return compile_unchecked(families::step_request(run));
}

inline Staged stage(const spec::Run& run) { return stage(families::step_request(run)); }

inline program::Tables describe(const spec::Run& run) { return describe(families::step_request(run)); }

inline spec::Run ten_million_in_six_layers() {
  spec::Run run;
  run.model = {
      .layers = 6, .hidden = 384, .heads = 6, .kv_heads = 6, .ffn = 1024, .vocab = 256, .sequence = 256};
  run.layout.micro_batch = 4;
  run.training.global_batch = 8;
  return run;
}

}  // namespace tessera::plan
