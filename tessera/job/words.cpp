#include "tessera/job/words.hpp"

#include <memory>
#include <optional>

#include "tessera/program/diagnose/spoken.hpp"
#include "tessera/program/diagnose/stuck.hpp"

namespace tessera::job {

launch::Words words_of(std::function<program::Program()> compile) {
  const auto program = std::make_shared<std::optional<program::Program>>();
  const auto compiled = [compile = std::move(compile), program]() -> const program::Program& {
    if (!*program) *program = compile();
    return **program;
  };
  launch::Words words;
  words.doing = [compiled](int rank, const RankState& state, double now) {
    return program::spoken(compiled(), rank, state, now);
  };
  words.guilt = [compiled](std::span<const RankState> states, double now) {
    const auto verdict = program::find_guilty(compiled(), states, now);
    return launch::Guilt{verdict.rank, verdict.sentence};
  };
  return words;
}

}  // namespace tessera::job
