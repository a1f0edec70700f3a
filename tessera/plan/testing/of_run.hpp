// The compiler's functions for a run file: tests describe what they compile as one.
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

}  // namespace tessera::plan
