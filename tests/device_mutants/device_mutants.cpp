// Checks that the asynchronous device reports faults. Removes, one kind at a time, what keeps streams and
// memory in order, verifies a few layouts on it, and reports which removals were noticed.
//   build/release/tests/device_mutants [N]     every Nth of them (default: all); a table as Markdown; fails
//                                              if one was not noticed
#include <cstdio>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/testing/async_device/ranks.hpp"
#include "tessera/verify/shrink.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera {
namespace {

using async_device::Omission;
using Kind = Omission::Kind;

// Between them they have every kind of op and operation.
const std::vector<std::vector<std::string>> kLayouts = {
    {"layout.dp=2", "layout.zero=3", "layout.pp=2", "layout.recompute=full", "layout.schedule=zb-h1"},
    {"layout.tp=2", "layout.dp=2", "layout.zero=2", "layout.tp_overlap=true"},
    {"layout.cp=2", "layout.tp=2"},
    {"layout.cp=2", "layout.dp=2", "layout.cp_heads=2"},
    {"layout.dp=2", "layout.zero=1", "layout.offload=optimizer,parameters,values", "layout.recompute=full"},
};

struct Mutant {
  std::string text;
  Omission omission;
  bool one_queue = false, frees_compute = false;
};

// Left out are those that change nothing. No memory is recorded in W and <; in g, s, >, + and o who drops it
// has waited for them; what I, N and r read of other lanes lies in slots. The waits of W are those of I
// before it; those of f and < are for memory that is not reused. Whoever calls another operation than a send
// or a shift holds its tensors until it has waited for it.
std::vector<Mutant> mutants() {
  std::vector<Mutant> out;
  const auto add = [&](Kind kind, const char* what, std::initializer_list<const char*> places) {
    for (const char* place : places) out.push_back({cat(what, " ", place), {kind, place}});
  };
  add(Kind::record_stream, "no record_stream in ops", {"F", "R", "B", "x"});
  add(Kind::event_wait, "no event wait before ops",
      {"F", "R", "B", "I", "N", "g", "r", "s", ">", "x", "+", "o"});
  add(Kind::issue_wait, "not after its caller:",
      {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send", "receive", "shift"});
  add(Kind::work_wait,
      "not waited for:", {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "receive", "shift"});
  add(Kind::kept_tensors, "freed while under way:", {"send", "shift"});
  out.push_back({"ops that compute leave the one queue", {}, true, true});
  return out;
}

// What the verification of the layout says; empty: it is equal, and nothing was seen.
std::string verdict(const std::vector<std::string>& layout, const Mutant& mutant,
                    train::References& references, std::int64_t& num_omitted) {
  std::vector<std::string> overrides = layout;
  for (const char* more : {"model.layers=4", "training.global_batch=4", "layout.micro_batch=1"})
    overrides.push_back(more);
  std::string shrunk;
  const spec::Run run = train::shrunk_for_verification(spec::load("examples/tiny.toml", overrides), shrunk);
  program::Program program = plan::compile(run);
  if (mutant.frees_compute)
    for (auto& unit : program.tables.units)
      for (auto& piece : unit.pieces) {
        piece.collectives.clear(), piece.backward_collectives.clear();
        piece.result_work.clear();
      }
  const async_device::RankOptions options{.one_queue = mutant.one_queue,
                                          .omission = mutant.omission,
                                          .patience_seconds = mutant.one_queue ? 3.0 : 60.0};
  try {
    const auto found =
        train::verify_program(run, program, references, {}, [&](int num_ranks, const auto& body) {
          async_device::Findings findings;
          async_device::run_ranks(options, num_ranks, body, &findings);
          num_omitted += findings.num_omitted;
        });
    return found.passed() ? "" : found.fault;
  } catch (const std::exception& error) {
    return error.what();
  }
}

bool is_named(const std::string& text) {
  return text.find("bytes made by ") != std::string::npos || text.find("stuck: ") != std::string::npos;
}

int run(std::size_t every) {
  train::References references;
  std::int64_t none = 0;
  std::size_t num_noticed = 0, num_named = 0, num = 0;
  for (const auto& layout : kLayouts)
    if (const std::string text = verdict(layout, {}, references, none); !text.empty()) {
      std::printf("NOT SOUND without a mutant: %s\n  %s\n", join(layout, " ").c_str(), text.c_str());
      return 1;
    }
  std::printf("| mutant | seen as |\n|---|---|\n");
  const std::vector<Mutant> all = mutants();
  for (std::size_t i = 0; i < all.size(); i += every) {
    const Mutant& mutant = all[i];
    std::string text;
    std::int64_t num_omitted = 0;
    for (const auto& layout : kLayouts) {
      const std::string found = verdict(layout, mutant, references, num_omitted);
      if (text.empty() || is_named(found)) text = found.empty() ? text : found;
      if (is_named(text)) break;
    }
    ++num;
    num_noticed += text.empty() ? 0 : 1;
    num_named += is_named(text) ? 1 : 0;
    std::printf("| %s | %s |\n", mutant.text.c_str(),
                text.empty() ? cat("NOT NOTICED, ", num_omitted, " left out").c_str()
                             : text.substr(0, text.find('\n')).c_str());
    std::fflush(stdout);
  }
  std::printf("\n%zu mutants, %zu noticed, %zu named with op and tensor\n", num, num_noticed, num_named);
  return num_noticed == num ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc > 1 ? std::stoul(argv[1]) : 1); }
