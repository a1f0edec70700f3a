// Do layouts round more than one rank does? Gradients of a step in bf16 are compared with those in fp64 from
// the same weights, which are rounded to bf16. The error (root mean square) over all gradients may be 1.5
// times that of one rank in bf16, that of each tensor 3 times. Ranks are threads.
//   build/release/tests/rounding [COUNT]         40 layouts by default, and a summary as Markdown
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/verify/outcome.hpp"

namespace tessera {
namespace {

using tensor::Tensor;
using Gradients = std::map<std::string, Tensor>;

constexpr double kAllowed = 1.5, kAllowedOfTensor = 3;

spec::Run one_rank(spec::Family family) {
  spec::Run run;
  // Weights so large that every layer counts.
  run.model = {.family = family,
               .layers = 4,
               .hidden = 64,
               .heads = 8,
               .kv_heads = family == spec::Family::gpt2 ? 8 : 2,
               .ffn = 96,
               .vocab = 128,
               .sequence = 64,
               .tied_embeddings = true,
               .init_std = 0.1};
  run.training.global_batch = 8;
  run.training.clip_norm = 0;
  run.layout.micro_batch = 2;
  run.layout.precision = spec::Precision::bf16;
  return run;
}

std::vector<spec::Layout> layouts() {
  return {{.tp = 2},
          {.tp = 2, .sequence_parallel = false},
          {.tp = 4},
          {.tp = 4, .sequence_parallel = false},
          {.tp = 8},
          {.tp = 8, .sequence_parallel = false},
          {.cp = 2},
          {.cp = 4},
          {.cp = 8},
          {.cp = 2, .cp_heads = 2},
          {.cp = 4, .cp_heads = 2},
          {.cp = 8, .cp_heads = 4, .recompute = spec::Recompute::full},
          {.pp = 2, .tp = 2},
          {.pp = 2, .tp = 4, .sequence_parallel = false, .schedule = "zb-v"_schedule},
          {.pp = 2, .cp = 2, .tp = 2, .zero = 1},
          {.pp = 2, .dp_shard = 2, .tp = 2, .zero = 1},
          {.dp_shard = 4, .tp = 2, .zero = 3},
          {.dp_shard = 2, .cp = 2, .cp_heads = 2, .tp = 2, .zero = 3},
          {.dp_replicate = 2, .dp_shard = 2, .tp = 2, .sequence_parallel = false, .zero = 2},
          {.pp = 2,
           .dp_replicate = 2,
           .cp = 2,
           .schedule = "interleaved"_schedule,
           .recompute = spec::Recompute::selective}};
}

std::string to_text(const spec::Run& run) {
  const auto& layout = run.layout;
  std::vector<std::string> words = {spec::word(run.model.family)};
  const auto add = [&](const char* name, std::int64_t size) {
    if (size > 1) words.push_back(cat(name, " ", size));
  };
  add("pp", layout.pp);
  if (layout.pp > 1) words.push_back(spec::word(layout.schedule));
  add("dp_replicate", layout.dp_replicate);
  add("dp_shard", layout.dp_shard);
  add("ring", layout.cp_ring());
  add("cp_heads", layout.cp_heads);
  add("tp", layout.tp);
  if (layout.cuts_stream()) words.push_back("sequence");
  if (layout.zero > 0) words.push_back(cat("zero ", layout.zero));
  if (layout.recompute != spec::Recompute::none) words.push_back("recomputed");
  return join(words, ", ");
}

Gradients gradients_of(const spec::Run& run) {
  spec::validate(run);
  Gradients out;
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        train::Session session(train::session_plan(run), communicator, train::random_source(run.model),
                               {.keep_gradients = true});
        auto outcome = train::outcome_of(session, communicator.rank(), run.training.clip_norm);
        if (communicator.rank() == 0) out = std::move(outcome.gradients);
      });
  return out;
}

// In fp64, from the weights that a bf16 run computes with.
Gradients exact_gradients(spec::Run run) {
  Gradients out;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    const train::Source source = train::random_source(run.model);
    train::Session rounded(train::session_plan(run), alone, source);
    run.layout.precision = spec::Precision::fp64;
    train::Session exact(train::session_plan(run), alone, source, {.keep_gradients = true});
    for (std::size_t i = 0; i < exact.buckets().size(); ++i)
      exact.buckets()[i].shard().copy_(rounded.buckets()[i].shard().to(at::kBFloat16));
    out = train::outcome_of(exact, 0, run.training.clip_norm).gradients;
  });
  return out;
}

double rms(double squares, double count) { return std::sqrt(squares / count); }

struct Errors {
  double of_all = 0;
  std::map<std::string, double> of_tensor;
};

Errors errors_of(const Gradients& found, const Gradients& exact) {
  Errors out;
  double squares = 0, count = 0;
  for (const auto& [name, expected] : exact) {
    const double own = optim::squared_norm(found.at(name).to(at::kDouble).sub(expected)).item<double>(),
                 elements = static_cast<double>(expected.numel());
    out.of_tensor[name] = rms(own, elements);
    squares += own;
    count += elements;
  }
  out.of_all = rms(squares, count);
  return out;
}

double size_of(const Gradients& gradients) {
  double squares = 0, count = 0;
  for (const auto& [name, gradient] : gradients) {
    squares += optim::squared_norm(gradient).item<double>();
    count += static_cast<double>(gradient.numel());
  }
  return rms(squares, count);
}

struct Family {
  spec::Run run;
  Gradients exact;
  Errors of_one;  // rank
};

Family family_of(spec::Family name) {
  Family out{.run = one_rank(name)};
  out.exact = exact_gradients(out.run);
  out.of_one = errors_of(gradients_of(out.run), out.exact);
  return out;
}

struct Judgement {
  std::string layout, worst_tensor;
  double of_all = 0, of_worst = 0;  // times what one rank has
  bool passed() const { return of_all <= kAllowed && of_worst <= kAllowedOfTensor; }
};

Judgement judged(const Family& family, const spec::Layout& layout) {
  spec::Run run = family.run;
  run.layout = layout;
  run.layout.micro_batch = family.run.layout.micro_batch;
  run.layout.precision = family.run.layout.precision;
  const Errors errors = errors_of(gradients_of(run), family.exact);
  Judgement out{.layout = to_text(run), .of_all = errors.of_all / family.of_one.of_all};
  for (const auto& [name, error] : errors.of_tensor) {
    const double times = error / family.of_one.of_tensor.at(name);
    if (!(times <= out.of_worst)) out.of_worst = times, out.worst_tensor = name;
  }
  return out;
}

int run(std::size_t count) {
  const double begin = now_seconds();
  const Family families[] = {family_of(spec::Family::llama), family_of(spec::Family::gpt2)};
  const auto all = layouts();
  std::vector<Judgement> judgements;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t which = i * 2 * all.size() / count;
    judgements.push_back(judged(families[which / all.size()], all[which % all.size()]));
    std::fprintf(stderr, "%zu of %zu layouts\n", i + 1, count);
  }
  for (const auto& family : families)
    std::printf("%s on one rank: error %.1e of the gradient (root mean squares)\n",
                spec::word(family.run.model.family).c_str(), family.of_one.of_all / size_of(family.exact));
  std::printf("\n| layout | error over all gradients | worst tensor | which |\n|---|---|---|---|\n");
  for (const auto& j : judgements)
    std::printf("| %s%s | %.2f | %.2f | %s |\n", j.passed() ? "" : "TOO FAR: ", j.layout.c_str(), j.of_all,
                j.of_worst, j.worst_tensor.c_str());
  const auto passed = std::ranges::count_if(judgements, &Judgement::passed);
  std::printf(
      "\n%td of %zu layouts in bf16 are as near to fp64 as one rank is (times its error: over all gradients "
      "at most %.1f, "
      "found %.2f; of a tensor at most %.1f, found %.2f), %.0f s\n",
      passed, count, kAllowed, std::ranges::max(judgements, {}, &Judgement::of_all).of_all, kAllowedOfTensor,
      std::ranges::max(judgements, {}, &Judgement::of_worst).of_worst, now_seconds() - begin);
  return passed == static_cast<std::ptrdiff_t>(count) ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::size_t most = 2 * tessera::layouts().size();
  const std::size_t asked = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : most;
  return tessera::run(std::clamp<std::size_t>(asked, 1, most));
}
