#include "tessera/job/start/needs.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/flops.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/program/ir/ranks.hpp"

namespace tessera::job {

namespace {

// A process without tensors: LibTorch's own memory, beyond what is shared with other processes.
constexpr std::int64_t kProcessBytes = std::int64_t{96} << 20;
constexpr std::int64_t kOwnFiles = 64;  // of a rank without peers: outputs, the launcher, the machine

// A run whose program is made at once: a search for slices changes when ranks communicate, and barely what
// they hold.
spec::Run without_search(spec::Run run) {
  if (run.layout.communication == spec::Communication::automatic)
    run.layout.communication = spec::Communication::arrival;
  return run.of_replica();
}

// Each rank shares a socket with every other member of its groups.
std::int64_t num_sockets(const program::Tables& tables, int rank) {
  std::int64_t out = 0;
  for (const auto& set : program::sets_of(tables)) out += std::ssize(set.peers(rank)) - 1;
  const auto others = static_cast<std::int64_t>(tables.class_of_rank.size()) - 1;
  return out + (tables.steps_overlap ? 2 * others : 0);
}

std::int64_t num_data_files(const spec::Run& run) {
  constexpr std::int64_t kFilesOfASource = 4;  // tokens and masks, with an index each
  return kFilesOfASource * std::ssize(spec::split_list(run.data.sources)) + 2;
}

// The copy that background saves write from. Ranks that hold the same bring an equal share of it each.
std::int64_t copied_bytes(const spec::Run& run, std::int64_t checkpoint_bytes) {
  const bool copies = run.checkpoint.saves() && run.checkpoint.background &&
                      !spec::offloads(run.layout, spec::Offload::optimizer) &&
                      !spec::offloads(run.layout, spec::Offload::parameters);
  return copies ? checkpoint_bytes / std::max<std::int64_t>(1, run.layout.ranks()) : 0;
}

}  // namespace

Needs needs_of(const spec::Run& run, int first, int num_ranks) {
  const bool is_one_process = spec::traits(run.cluster.transport).is_one_process;
  const program::Program program = plan::compile_unchecked(families::step_request(without_search(run)));
  const program::Tables& tables = program.tables;
  const auto classes = plan::memory_of(program);
  const int replica_ranks = static_cast<int>(tables.class_of_rank.size());
  Needs out{.num_ranks = num_ranks, .checkpoint_bytes = plan::checkpoint_bytes(tables)};
  const std::int64_t copied = copied_bytes(run, out.checkpoint_bytes);
  for (int rank = first; rank < first + num_ranks; ++rank) {
    const auto& held = classes.at(tables.class_of_rank.at(static_cast<std::size_t>(rank % replica_ranks)));
    const std::int64_t outside = held.at_peak.of(Category::host);
    const bool is_on_disk = !run.layout.offload_folder.empty();
    const std::int64_t bytes = held.peak_bytes + copied + (is_on_disk ? 0 : outside) +
                               (is_one_process && rank > first ? 0 : kProcessBytes);
    out.memory_bytes += bytes;
    out.process_bytes = is_one_process ? out.memory_bytes : std::max(out.process_bytes, bytes);
    out.offload_bytes += is_on_disk ? outside : 0;
    out.open_files = std::max(out.open_files, is_one_process ? 0 : num_sockets(tables, rank % replica_ranks));
  }
  out.open_files += kOwnFiles + num_data_files(run);
  const spec::Run replica = run.of_replica();
  out.step_flops = plan::step_flops(program, replica.layout, replica.training.global_batch).hardware *
                   num_ranks / replica_ranks;
  return out;
}

std::int64_t num_new_checkpoints(const spec::Checkpoint& rule, std::int64_t steps,
                                 std::vector<std::int64_t> existing) {
  const std::int64_t first = existing.empty() ? 0 : std::ranges::max(existing);
  if (!rule.saves() || steps <= first) return 0;
  const std::int64_t every = rule.every > 0 ? rule.every : steps;
  const std::int64_t periodic = steps / every - first / every, left = periodic + (steps % every != 0 ? 1 : 0);
  if (rule.keep_last == 0) return left;
  const std::int64_t window = rule.keep_last + 1;
  const auto stays = [&](std::int64_t step) { return rule.keep_every > 0 && step % rule.keep_every == 0; };
  // Saves that are older than the newest ones at the end, and stay.
  std::int64_t kept = 0;
  if (left > window && rule.keep_every > 0) {
    const std::int64_t last_old = every * (first / every + left - window);
    const std::int64_t apart = rule.keep_every / std::gcd(every, rule.keep_every);  // of the saves that stay
    if (apart <= last_old / every) kept = last_old / (every * apart) - first / (every * apart);
  }
  // All existing ones but the newest are removed as new ones come.
  const auto in_window = std::clamp<std::int64_t>(window - left, 0, std::ssize(existing));
  std::ranges::sort(existing);
  const std::int64_t freed =
      std::count_if(existing.begin(), existing.end() - in_window, [&](auto step) { return !stays(step); });
  return std::max<std::int64_t>(1, std::min(left, window) + kept - freed);
}

}  // namespace tessera::job
