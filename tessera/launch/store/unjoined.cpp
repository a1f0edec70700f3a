#include "tessera/launch/store/unjoined.hpp"

#include <array>
#include <charconv>
#include <vector>

#include "tessera/base/text.hpp"

namespace tessera::launch {
namespace {

// A launcher that numbers its processes. Without a variable for their number, any process may be one of many.
struct Launcher {
  const char *rank, *size, *name;
};
constexpr std::array<Launcher, 11> kLaunchers = {{
    {"RANK", "WORLD_SIZE", "torch.distributed"},
    {"PMI_RANK", "PMI_SIZE", "MPICH or Intel MPI"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MVAPICH"},
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "jsrun"},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "Flux"},
    {"AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES", "AWS Batch"},
    {"PMIX_RANK", "", "PMIx"},
    {"PALS_RANKID", "", "PALS"},
    {"MPI_LOCALRANKID", "", "Intel MPI"},
    {"JOB_COMPLETION_INDEX", "", "a Kubernetes Job"},
    {"SLURM_PROCID", "SLURM_NTASKS", "Slurm"},
}};
constexpr const Launcher& kSlurm = kLaunchers.back();

bool is_torch(const Launcher& launcher) { return &launcher == &kLaunchers.front(); }

std::string text(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::optional<int> number(const std::string& text) {
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return out;
}

// How to join the ranks of a launcher by hand.
std::string remedy(const Launcher& launcher, const std::string& size) {
  if (&launcher == &kSlurm)
    return cat("Start the ranks as a step, srun", size.empty() ? "" : cat(" -n ", size),
               " tessera train RUN, or one job of N local ranks with --procs N.");
  const std::string world = *launcher.size ? cat("$", launcher.size) : "<number of processes>";
  return cat(
      "Start them with torchrun, srun or Open MPI's mpirun, or say where they meet: sh -c '",
      is_torch(launcher) ? "" : cat("RANK=$", launcher.rank, " WORLD_SIZE=", world, " "),
      "MASTER_ADDR=<host of rank 0> exec tessera train RUN' (127.0.0.1 if all are on one host). --procs N "
      "starts a job of N local ranks in this process alone.");
}

std::string complaint(const Environment& environment, const Launcher& launcher) {
  std::vector<std::string> seen;
  for (const char* name : {launcher.rank, launcher.size})
    if (const std::string value = text(environment, name); !value.empty())
      seen.push_back(cat(name, "=", value.substr(0, 40)));
  const std::string size = text(environment, launcher.size);
  return cat(
      "this process was started as one of several: ", launcher.name, " has set ", join(seen, ", "),
      ". Tessera cannot find the other processes from that, and each would train a copy of its own and "
      "write to the same folder. ",
      remedy(launcher, size));
}

// torchrun within mpirun or srun, whose processes are several although it starts only one itself.
bool is_one_of_outer_ranks(Environment environment) {
  if (!environment.contains("TORCHELASTIC_RUN_ID")) return false;
  for (const char* name : {"TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"}) environment.erase(name);
  return membership(environment).has_value();
}

}  // namespace

std::optional<std::string> unjoined(const Environment& environment) {
  const auto starter = started_as(environment, Joins::any);
  const bool is_joined = starter && starter->world_size > 1;
  if (is_joined && starter->started_by != "srun") return std::nullopt;
  bool is_alone = starter.has_value();
  const Launcher* unknown = nullptr;
  for (const Launcher& launcher : kLaunchers) {
    if (&launcher == &kSlurm) continue;
    const std::string rank = text(environment, launcher.rank), size = text(environment, launcher.size);
    if (rank.empty() && size.empty()) continue;
    // Any program may use these words, so they count together where a launcher has said more.
    if (is_torch(launcher) && (size.empty() || (is_joined && rank.empty()))) continue;
    const auto world = number(size);
    // MPI within a step of srun starts more ranks than the step has tasks.
    if (world > 1 && (!is_joined || starter->world_size != *world)) return complaint(environment, launcher);
    if (world == 1) is_alone = true;
    if (!world && !unknown) unknown = &launcher;
  }
  if (is_joined) return std::nullopt;
  if (starter && is_one_of_outer_ranks(environment))
    return cat(
        "torchrun has started one rank, and is itself one of several processes of mpirun or srun: each would "
        "train a copy of its own. Leave torchrun out, or give it --nnodes, --node-rank and "
        "--master-addr.");
  if (is_alone) return std::nullopt;
  if (unknown) return complaint(environment, *unknown);
  if (number(text(environment, kSlurm.size)).value_or(1) > 1 ||
      number(text(environment, kSlurm.rank)).value_or(0) > 0)
    return complaint(environment, kSlurm);
  return std::nullopt;
}

}  // namespace tessera::launch
