#include "tessera/plan/compile.hpp"

#include "tessera/base/error.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/program/check.hpp"
#include "tessera/program/generate.hpp"

namespace tessera::plan {

program::Program compile(const spec::Run& run) {
  program::Program program = program::data_parallel(describe(run), {.overlap = run.layout.overlap});
  const auto problems = program::check(program);
  CHECK(problems.empty(), "the compiled program is wrong:\n", program::to_text(problems));
  return program;
}

}  // namespace tessera::plan
