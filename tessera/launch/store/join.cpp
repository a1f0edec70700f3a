#include "tessera/launch/store/join.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <string_view>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

constexpr int kMostRanks = 1 << 20;
// Slurm numbers the batch script, the shell of an allocation and its own services from here on.
constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;

// The variables of one starter, with errors that name it.
class Variables {
 public:
  Variables(const Environment& environment, std::string started_by)
      : environment_(environment), started_by_(std::move(started_by)) {}

  bool has(const std::string& name) const { return environment_.contains(name); }
  // The first of the two that is set, else "".
  std::string text(const std::string& name, const std::string& otherwise = {}) const {
    const auto found = environment_.find(has(name) ? name : otherwise);
    return found == environment_.end() ? "" : found->second;
  }
  int number(const std::string& name, int least, int most) const {
    if (!has(name))
      throw UserError(cat(name, " is not set, though ", started_by_,
                          " seems to have started this process. Start it with ", started_by_,
                          ", or unset what ", started_by_, " has left in the environment."));
    return parsed(name, text(name), least, most);
  }
  int number(const std::string& name, int least, int most, int otherwise) const {
    return has(name) ? number(name, least, most) : otherwise;
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& value,
                           const std::string& wanted) const {
    throw UserError(
        cat(name, " = '", value, "' in the environment, as left by ", started_by_, ": wants ", wanted));
  }

 private:
  int parsed(const std::string& name, std::string_view value, int least, int most) const {
    int out = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error != std::errc{} || end != value.data() + value.size() || out < least || out > most)
      refuse(name, std::string(value), cat("a whole number from ", least, " to ", most));
    return out;
  }

  const Environment& environment_;
  const std::string started_by_;
};

Membership of_torchrun(const Environment& environment) {
  const Variables in(environment, "torchrun");
  Membership m{.started_by = "torchrun"};
  m.world_size = in.number("WORLD_SIZE", 1, kMostRanks);
  m.rank = in.number("RANK", 0, m.world_size - 1);
  m.local_size = in.number("LOCAL_WORLD_SIZE", 1, m.world_size);
  m.local_rank = in.number("LOCAL_RANK", 0, m.local_size - 1);
  m.num_hosts = in.number("GROUP_WORLD_SIZE", 1, m.world_size, m.local_size == m.world_size ? 1 : 2);
  m.generation = in.number("TORCHELASTIC_RESTART_COUNT", 0, kMostRanks, 0);
  // The port too: jobs without a name of their own are all called "none".
  m.job = cat("torchrun-", in.text("TORCHELASTIC_RUN_ID"), "-", in.text("MASTER_ADDR"), ":",
              in.text("MASTER_PORT"));
  return m;
}

Membership of_open_mpi(const Environment& environment) {
  const Variables in(environment, "mpirun");
  Membership m{.started_by = "mpirun"};
  m.world_size = in.number("OMPI_COMM_WORLD_SIZE", 1, kMostRanks);
  m.rank = in.number("OMPI_COMM_WORLD_RANK", 0, m.world_size - 1);
  m.local_size = in.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, m.world_size);
  m.local_rank = in.number("OMPI_COMM_WORLD_LOCAL_RANK", 0, m.local_size - 1);
  m.num_hosts = m.local_size == m.world_size ? 1 : 2;  // orte_num_nodes counts the allocation
  m.is_bound = in.text("OMPI_MCA_orte_bound_at_launch") == "1";
  m.job = cat("mpirun-", in.text("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"));
  return m;
}

// How many tasks node `node` has by Slurm's list of runs: "2(x3),1" are three nodes with two and one with
// one.
int tasks_of_node(const Variables& in, const std::string& name, int node, int most) {
  const std::string list = in.text(name);
  const auto refuse = [&] { in.refuse(name, list, "a list like 2(x3),1 with an entry for every node"); };
  std::string_view rest = list;
  const auto take_number = [&] {
    int out = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
    if (error != std::errc{} || out < 1 || out > most) refuse();
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return out;
  };
  const auto take = [&](std::string_view word) {
    const bool found = rest.starts_with(word);
    if (found) rest.remove_prefix(word.size());
    return found;
  };
  while (true) {
    const int tasks = take_number();
    int nodes = 1;
    if (take("(x")) {
      nodes = take_number();
      if (!take(")")) refuse();
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (!take(",")) refuse();
  }
}

bool is_slurm_step(const Environment& environment) {
  const auto step = environment.find("SLURM_STEP_ID");
  if (step == environment.end() || !environment.contains("SLURM_PROCID")) return false;
  std::int64_t number = 0;
  const char* end = step->second.data() + step->second.size();
  const auto parsed = std::from_chars(step->second.data(), end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end && number < kFirstSpecialStep;
}

Membership of_slurm(const Environment& environment) {
  const Variables in(environment, "srun");
  Membership m{.started_by = "srun"};
  const auto of_step = [&](const char* step, const char* job) { return in.has(step) ? step : job; };
  m.world_size = in.number(of_step("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), 1, kMostRanks);
  m.rank = in.number("SLURM_PROCID", 0, m.world_size - 1);
  m.num_hosts = in.number(of_step("SLURM_STEP_NUM_NODES", "SLURM_NNODES"), 1, m.world_size);
  const int node = in.number("SLURM_NODEID", 0, m.num_hosts - 1, 0);
  m.local_size =
      tasks_of_node(in, of_step("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), node, m.world_size);
  m.local_rank = in.number("SLURM_LOCALID", 0, m.local_size - 1);
  m.generation = in.number("SLURM_RESTART_COUNT", 0, kMostRanks, 0);
  const std::string binding = in.text("SLURM_CPU_BIND_TYPE");
  m.is_bound = binding.starts_with("mask_cpu") || binding.starts_with("map_cpu");
  m.job = cat("slurm-", in.text("SLURM_JOB_ID"), "-", in.text("SLURM_STEP_ID"));
  return m;
}

// The variables by which torch.distributed finds its ranks, whoever has set them. They do not say which ranks
// share a host, unless the address is this host's own.
Membership of_torch_variables(const Environment& environment) {
  const Variables in(environment, "the launcher that set RANK and WORLD_SIZE");
  Membership m{.started_by = "the launcher that set RANK and WORLD_SIZE"};
  m.world_size = in.number("WORLD_SIZE", 1, kMostRanks);
  m.rank = in.number("RANK", 0, m.world_size - 1);
  const std::string address = in.text("MASTER_ADDR");
  const bool is_one_host = address == "localhost" || address == "::1" || address.starts_with("127.");
  const int local_rank = in.number("LOCAL_RANK", 0, m.world_size - 1, is_one_host ? m.rank : 0);
  m.local_size = in.number("LOCAL_WORLD_SIZE", local_rank + 1, m.world_size,
                           is_one_host ? m.world_size : local_rank + 1);
  m.local_rank = local_rank;
  m.num_hosts = m.local_size == m.world_size ? 1 : 2;
  m.is_bound = !is_one_host && !in.has("LOCAL_WORLD_SIZE");  // whose cores are whose is not known
  m.job = cat("torch-", address, ":", in.text("MASTER_PORT"));
  return m;
}

bool has_torch_variables(const Environment& environment) {
  const Variables in(environment, "");
  return !in.text("RANK").empty() && !in.text("WORLD_SIZE").empty() && !in.text("MASTER_ADDR").empty();
}

}  // namespace

std::optional<Membership> started_as(const Environment& environment, Joins joins) {
  std::optional<Membership> found;
  if (environment.contains("TORCHELASTIC_RUN_ID"))
    found = of_torchrun(environment);
  else if (environment.contains("OMPI_COMM_WORLD_RANK"))
    found = of_open_mpi(environment);
  else if (is_slurm_step(environment))
    found = of_slurm(environment);
  const bool may_be_alone = !found || found->world_size == 1;
  if (joins == Joins::any && may_be_alone && has_torch_variables(environment))
    found = of_torch_variables(environment);
  return found;
}

std::optional<Membership> membership(const Environment& environment, Joins joins) {
  const auto found = started_as(environment, joins);
  return found && found->world_size > 1 ? found : std::nullopt;
}

Environment process_environment() {
  Environment out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != text.npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace tessera::launch
