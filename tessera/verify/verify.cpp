#include "tessera/verify/verify.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/data/byte_corpus.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/verify/lossy.hpp"
#include "tessera/verify/shrink.hpp"

namespace tessera::train {

namespace {

constexpr std::int64_t kMaskPeriod = 5;

// Random tokens, with samples that differ in how many targets count.
Source uneven_source(const spec::Model& model) {
  return
      [random = random_source(model)](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                      std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
        random(samples, tokens, targets, documents);
        data::mask_every(kMaskPeriod, samples, targets);
      };
}

spec::Run one_device(spec::Run run) {
  // Delayed weights are other mathematics, whatever the layout.
  const bool is_delayed = spec::entry(run.layout.schedule).traits.is_delayed;
  const bool thin = run.layout.compress_gradients == spec::Compression::powersgd;
  const std::int64_t rank = run.layout.compress_rank;
  run.layout = spec::Layout{.schedule = is_delayed ? run.layout.schedule : spec::Layout().schedule,
                            .micro_batch = run.training.global_batch,
                            .precision = run.layout.precision};
  if (thin) run.layout.compress_gradients = spec::Compression::powersgd, run.layout.compress_rank = rank;
  return run;
}

// What the first difference says.
std::string fault_of(const Verification& verification, const program::Tables& tables) {
  const Comparison* wrong = first_wrong(verification.comparisons, verification.tolerance);
  if (!wrong && !verification.replicas_equal) return "replicas that should be equal bit by bit differ";
  if (!wrong) return verification.numbers_equal ? "" : "ranks differ in the loss or the norm of a step";
  const std::string place = placement_text(wrong->what, tables);
  return cat(wrong->what, wrong->kind == "number" ? "" : cat(" (", wrong->kind, ")"), ": error ",
             scientific(wrong->error), ", found ", wrong->found, " where one device has ", wrong->expected,
             wrong->ratio ? cat(", ", fixed(*wrong->ratio, 4), " of it") : "",
             place.empty() ? "" : cat("; here ", place, ", there whole"), "; ",
             cause_of(wrong->ratio, tables));
}

// A session ends when its lanes do, and these may wait for ranks that failed too.
Outcome outcome_or_abort(Session& session, const collective::Communicator& communicator, double clip_norm,
                         int num_steps) {
  try {
    return outcome_of(session, communicator.rank(), clip_norm, num_steps);
  } catch (...) {
    communicator.abort();
    throw;
  }
}

// Runs on this rank; rank 0 asks for what is expected.
Verification verify_here(const spec::Run& run, SessionPlan plan, const collective::Communicator& communicator,
                         const StepGroups& step_groups, References& references) {
  Session session(std::move(plan), communicator, uneven_source(run.model),
                  {.step_groups = step_groups, .keep_gradients = true});
  const auto& tables = session.program().tables;
  const Outcome found =
      outcome_or_abort(session, communicator, run.training.clip_norm, references.num_steps());
  Verification out;
  out.tolerance = tolerance_of(run.layout.precision);
  out.num_ranks = communicator.size();
  out.num_micro = tables.num_micro;
  out.num_steps = references.num_steps();
  if (run.layout.pp > 1) out.schedule = session.schedule();
  out.replicas_equal = found.replicas_equal;
  out.numbers_equal = found.numbers_equal;
  if (communicator.rank() != 0) return out;
  out.bits = bits_text(found);
  const auto& expected = references.of(run);
  out.comparisons = compare(found, expected.outcome, expected.order);
  out.worst_relative_error = worst_of(out.comparisons);
  out.fault = fault_of(out, tables);
  return out;
}

}  // namespace

double tolerance_of(spec::Precision precision) { return precision == spec::Precision::fp64 ? 1e-10 : 1e-4; }

const References::Reference& References::of(const spec::Run& run) {
  const spec::Run alone = one_device(run);
  const bool is_lossy = rounds_traffic(run.layout);
  const auto [known, is_new] = known_.try_emplace(spec::to_text(is_lossy ? run : alone));
  if (is_new && is_lossy) {
    const program::Program program = plan::compile(families::step_request(alone));
    known->second = {lossy_outcome(run, alone, uneven_source(run.model), num_steps_),
                     computed_order(program.tables)};
  } else if (is_new) {
    collective::run_ranks(1, [&](const collective::Communicator& communicator) {
      Session session(session_plan(alone), communicator, uneven_source(alone.model),
                      {.keep_gradients = true});
      known->second = {outcome_of(session, 0, alone.training.clip_norm, num_steps_),
                       computed_order(session.program().tables)};
    });
  }
  return known->second;
}

Verification verify(const spec::Run& run, const collective::Communicator& communicator, int num_steps) {
  std::string shrunk;
  const spec::Run small = shrunk_for_verification(run, shrunk);
  References references(num_steps);
  Verification out = verify_here(small, session_plan(small), communicator, {}, references);
  out.shrunk = shrunk;
  return out;
}

Verification verify_as_it_is(const spec::Run& run, References& references, const StepGroups& step_groups,
                             const collective::RunRanks& run_ranks) {
  return verify_program(run, plan::compile(families::step_request(run)), references, step_groups, run_ranks);
}

Verification verify_program(const spec::Run& run, const program::Program& program, References& references,
                            const StepGroups& step_groups, const collective::RunRanks& run_ranks) {
  Verification out;
  run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
    Verification mine = verify_here(run, session_plan(run, program), communicator, step_groups, references);
    if (communicator.rank() == 0) out = std::move(mine);
  });
  return out;
}

Verification verify_on_threads(const spec::Run& run, const StepGroups& step_groups,
                               const collective::RunRanks& run_ranks, int num_steps) {
  References references(num_steps);
  std::string shrunk;
  Verification out =
      verify_as_it_is(shrunk_for_verification(run, shrunk), references, step_groups, run_ranks);
  out.shrunk = shrunk;
  return out;
}

namespace {

std::string judged(const Verification& verification, const Comparison& c) {
  if (c.zero_in_theory) return c.kind == "gradient" ? "zero in theory" : "moved by rounding";
  if (c.error == 0 && !c.is_finite) return "same, not finite";
  return c.error <= verification.tolerance ? scientific(c.error) : scientific(c.error) + " WRONG";
}

// What was looked at and proves nothing.
std::string not_judged(const Verification& verification) {
  const auto count = [&](auto&& is_meant) {
    return std::ranges::count_if(verification.comparisons, is_meant);
  };
  const auto zero = count([](const Comparison& c) { return c.zero_in_theory && c.kind == "parameter"; });
  const auto not_finite = count([](const Comparison& c) { return !c.is_finite; });
  return cat(zero == 0 ? ""
                       : cat("not judged: ", zero,
                             " parameter(s) after the steps, whose gradients are zero in theory; AdamW may "
                             "move them by rounding\n"),
             not_finite == 0
                 ? ""
                 : cat("one device has ", not_finite,
                       " number(s) or tensor(s) that are not finite: nothing is proven by these. A smaller "
                       "training.learning_rate or model.init_std may help\n"));
}

}  // namespace

std::string to_text(const Verification& verification) {
  std::vector<std::vector<std::string>> numbers = {{"", "relative error"}};
  std::vector<std::vector<std::string>> tensors = {
      {"tensor", "gradient", cat("after ", verification.num_steps, " steps")}};
  for (const auto& c : verification.comparisons) {
    if (c.kind == "number")
      numbers.push_back({c.what, judged(verification, c)});
    else if (c.kind == "gradient")
      tensors.push_back({c.what, judged(verification, c)});
    else
      for (auto& row : tensors)
        if (row[0] == c.what) row.push_back(judged(verification, c));
  }
  return cat(
      verification.shrunk.empty() ? "" : cat("made smaller to verify: ", verification.shrunk, "\n"),
      table(numbers), "\n", table(tensors), "\n", verification.num_ranks, " rank(s), ",
      verification.num_micro, " micro-batch(es), ",
      verification.schedule.empty() ? "" : verification.schedule + ", ",
      verification.tolerance < 1e-6 ? "fp64" : "fp32", ", against one device: worst relative error ",
      scientific(verification.worst_relative_error), " (allowed ", scientific(verification.tolerance, 0),
      "), replicas ", verification.replicas_equal ? "bit-equal" : "DIFFER",
      verification.numbers_equal ? "" : ", loss or norm NOT THE SAME on all ranks", ": ",
      verification.passed() ? "equal" : "NOT EQUAL", "\n",
      verification.num_ranks == 1
          ? "one rank splits nothing: a layout of several has, for example, layout.dp=2\n"
          : "",
      verification.fault.empty() ? "" : cat("first: ", verification.fault, "\n"), not_judged(verification));
}

}  // namespace tessera::train
