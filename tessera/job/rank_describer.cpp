#include "tessera/job/rank_describer.hpp"

#include <memory>
#include <optional>

#include "tessera/program/diagnose/hang_diagnosis.hpp"
#include "tessera/program/diagnose/op_description.hpp"

namespace tessera::job {

launch::RankDescriber describer_of(std::function<program::Program()> compile) {
  const auto program = std::make_shared<std::optional<program::Program>>();
  const auto compiled = [compile = std::move(compile), program]() -> const program::Program& {
    if (!*program) *program = compile();
    return **program;
  };
  launch::RankDescriber describer;
  describer.doing = [compiled](int rank, const RankState& state, double now) {
    return program::described(compiled(), rank, state, now);
  };
  describer.culprit = [compiled](std::span<const RankState> states, double now) {
    const auto verdict = program::find_culprit(compiled(), states, now);
    return launch::Culprit{verdict.rank, verdict.sentence};
  };
  return describer;
}

}  // namespace tessera::job
