#include "tessera/job/start/start.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <thread>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/descriptor.hpp"
#include "tessera/base/process/resident.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/job/machine_memory.hpp"
#include "tessera/job/start/host.hpp"
#include "tessera/job/start/needs.hpp"
#include "tessera/launch/store/open_files.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/shard/flat_bucket.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/tensor/peak.hpp"
#include "tessera/train/source/source.hpp"

namespace tessera::job {

namespace {

using Problems = std::vector<std::string>;

std::string size(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string ranks_here(const Needs& needs) {
  return needs.num_ranks == 1 ? "the rank" : cat("the ", needs.num_ranks, " ranks of this host");
}

// Stacks of threads and arenas of the allocator take many more addresses than bytes, and the range of tensors
// leaves them a third (tensor/arena_torch.cpp).
std::int64_t addresses_needed(std::int64_t process_bytes) {
  constexpr std::int64_t kUnused = std::int64_t{1280} << 20;
  return process_bytes / 2 * 3 + kUnused;
}

double free_memory(const MachineMemory& here) {
  const double free = here.available_bytes + here.free_swap_bytes;
  return here.group ? std::min(free, here.group->free_bytes) : free;
}

void check_memory(const Needs& needs, Problems& out) {
  constexpr const char* kRemedy =
      ". Let each rank hold less (layout.micro_batch, layout.zero, layout.recompute, layout.offload) or take "
      "more "
      "hosts; train --dry-run shows what they hold";
  const MachineMemory here = machine_memory();
  const double free = free_memory(here);
  if (static_cast<double>(needs.memory_bytes) > free)
    out.push_back(cat("memory: ", ranks_here(needs), needs.num_ranks == 1 ? " needs " : " need ",
                      size(needs.memory_bytes), ", and ", bytes_text(free), " are available",
                      here.group
                          ? cat(" (a control group limits them to ", bytes_text(here.group->limit_bytes), ")")
                          : cat(" of ", bytes_text(here.total_bytes)),
                      kRemedy));
  const auto addresses = limited_address_space();
  if (!addresses) return;
  const std::int64_t needed = addresses->used_bytes + addresses_needed(needs.process_bytes);
  if (needed > addresses->limit_bytes)
    out.push_back(cat("address space: a rank needs ", size(needed), ", and the limit (ulimit -v) allows ",
                      size(addresses->limit_bytes), ". Raise the limit, or let each rank hold less"));
}

void check_open_files(const Needs& needs, Problems& out) {
  const auto most = static_cast<std::int64_t>(launch::most_open_files());
  if (needs.open_files > most)
    out.push_back(cat("open files: a rank needs ", needs.open_files, ", and the system allows ", most,
                      ". Raise the limit (ulimit -Hn ", needs.open_files, ") or start fewer ranks"));
}

struct Written {
  std::string folder, what, remedy;
  double bytes = 0;
};

// Folders on one disk share what is free of it.
void check_disks(const std::vector<Written>& all, Problems& out) {
  std::map<std::uint64_t, std::vector<const Written*>> by_device;
  for (const Written& each : all)
    if (const auto disk = disk_of(each.folder)) by_device[disk->device].push_back(&each);
  for (const auto& [device, written] : by_device) {
    const double free = disk_of(written.front()->folder)->free_bytes;
    double bytes = 0;
    Problems whats, remedies;
    for (const Written* each : written) {
      bytes += each->bytes;
      whats.push_back(cat(each->what, " in ", each->folder));
      remedies.push_back(each->remedy);
    }
    if (bytes > free)
      out.push_back(cat("disk: the run needs ", bytes_text(bytes), " (", join(whats, " and "), "), and ",
                        bytes_text(free), " are free. Make room, or ", join(remedies, ", or ")));
  }
}

std::int64_t new_checkpoints(const spec::Run& run, const Start& start) {
  std::vector<std::int64_t> existing;
  for (const auto& each : checkpoint::step_folders(start.checkpoints)) existing.push_back(each.step);
  return num_new_checkpoints(run.checkpoint, run.training.steps, existing);
}

std::vector<Written> written_by(const spec::Run& run, const Start& start, const Outlook& outlook) {
  std::vector<Written> out;
  const Needs& needs = outlook.needs;
  const std::int64_t count = outlook.new_checkpoints;
  if (count > 0)
    out.push_back(
        {start.checkpoints,
         cat(count, count == 1 ? " checkpoint of " : " checkpoints of ", size(needs.checkpoint_bytes)),
         "keep fewer (checkpoint.keep_last, checkpoint.keep_every), or name another disk in "
         "checkpoint.folder",
         static_cast<double>(count) * static_cast<double>(needs.checkpoint_bytes)});
  if (needs.offload_bytes > 0)
    out.push_back({run.layout.offload_folder, "what is offloaded",
                   "name another disk in layout.offload_folder", static_cast<double>(needs.offload_bytes)});
  return out;
}

void check_files(const spec::Run& run, const Start& start, Problems& out) {
  const auto add = [&](const std::string& complaint) {
    if (!complaint.empty()) out.push_back(complaint);
  };
  add(complaint_of([&] { train::expect_data(run.data, run.model, run.evaluation); }));
  if (!run.model.weights.empty())
    add(complaint_of([&] { checkpoint::TensorFiles(run.model.weights, checkpoint::links_of(run.model)); }));
  std::error_code error;
  if (const std::string& file = run.training.replay_choices;
      !file.empty() && !std::filesystem::exists(file, error))
    out.push_back(cat("training.replay_choices = ", file, ": there is no such file"));
  if (!start.from.empty() && start.from != "none" && !checkpoint::is_checkpoint(start.from) &&
      checkpoint::step_folders(start.from).empty())
    out.push_back(cat("--from ", start.from,
                      ": there is no checkpoint (a folder with manifest.json, or with folders step-...)"));
  const std::string above = std::filesystem::path(start.trace).parent_path().string();
  if (!start.trace.empty() && ::access(above.empty() ? "." : above.c_str(), W_OK) != 0)
    out.push_back(cat("--trace ", start.trace, ": cannot write into its folder: ", system_reason()));
}

// In a thread of its own: a file system that hangs must not hold up the job without a word.
Problems missing_files(const spec::Run& run, const Start& start) {
  std::packaged_task<Problems()> check([run, start] {
    Problems out;
    check_files(run, start, out);
    return out;
  });
  auto found = check.get_future();
  std::thread(std::move(check)).detach();
  if (found.wait_for(std::chrono::duration<double>(run.cluster.timeout_seconds)) == std::future_status::ready)
    return found.get();
  throw PeerLost(
      cat("no progress for ", fixed(run.cluster.timeout_seconds, 1),
          " s: the data, weights and folders that the run names are being looked at before ranks start. "
          "Does their file system answer?"));
}

}  // namespace

Start start_on_host(const spec::Run& run, const std::optional<launch::Membership>& joined) {
  const auto ranks = static_cast<int>(run.layout.ranks());
  if (!joined)
    return {.num_ranks = ranks,
            .starts_processes = ranks > 1 && !spec::traits(run.cluster.transport).is_one_process};
  return {.first_rank = std::max(0, joined->rank - joined->local_rank), .num_ranks = joined->local_size};
}

Outlook expect_can_start(const spec::Run& run, const Start& start) {
  Problems problems;
  if (start.starts_processes) problems = missing_files(run, start);
  const Outlook out{.needs = needs_of(run, start.first_rank, start.num_ranks),
                    .new_checkpoints = new_checkpoints(run, start),
                    .free_memory_bytes = free_memory(machine_memory())};
  if (!spec::traits(run.cluster.transport).uses_gpus) check_memory(out.needs, problems);
  check_open_files(out.needs, problems);
  check_disks(written_by(run, start, out), problems);
  if (problems.empty()) return out;
  if (problems.size() == 1) throw UserError(problems.front());
  throw UserError(cat("this run cannot start:\n  ", join(problems, "\n  ")));
}

std::string slow_products_text(spec::Precision precision, const tensor::ProductSpeed& speed) {
  const std::string word = spec::word(precision);
  return cat("products in ", word, " take ", fixed(speed.times_fp32, 1),
             " times as long as in fp32 on this processor, which has no instructions for them: "
             "layout.precision = \"fp32\" trains faster here");
}

std::string first_screen(const Outlook& outlook, const spec::Run& run, const Start& start,
                         const std::string& name, const std::string& folder) {
  const Needs& needs = outlook.needs;
  const std::int64_t ranks = run.layout.ranks();
  const bool uses_gpus = spec::traits(run.cluster.transport).uses_gpus;
  const std::string here = start.num_ranks == ranks ? "on this host" : cat(start.num_ranks, " on this host");
  const std::string memory = uses_gpus ? "" : cat(" of ", bytes_text(outlook.free_memory_bytes), " free");
  const std::string disk =
      !run.checkpoint.saves()
          ? "nothing is saved (checkpoint.every and checkpoint.every_minutes are 0)"
          : cat(outlook.new_checkpoints, outlook.new_checkpoints == 1 ? " checkpoint" : " checkpoints", ", ",
                bytes_text(static_cast<double>(outlook.new_checkpoints) *
                           static_cast<double>(needs.checkpoint_bytes)));
  const std::string of_rank =
      start.num_ranks == 1 ? "" : cat("at most ", size(needs.process_bytes), " a rank, ");
  std::string out = cat(name, ": ", ranks, ranks == 1 ? " rank " : " ranks ", here, ", output in ", folder,
                        "\nmemory: ", of_rank, size(needs.memory_bytes), memory, "; disk: ", disk, "\n");
  // Measuring takes a tenth of a second: where nobody waits for a step, only what may be slow is measured.
  constexpr double kShortFlops = 1e10;
  const auto dtype = shard::to_torch(plan::compute_dtype(run.layout.precision));
  const bool is_short = needs.step_flops < kShortFlops * needs.num_ranks;
  if (uses_gpus || run.layout.updates != spec::Updates::synchronous || (is_short && dtype == at::kFloat))
    return out;
  // Each rank computes on one thread, and they take turns on too few cores.
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto speed = tensor::product_speed(dtype);
  const double rate = speed.flops_per_second * std::min(needs.num_ranks, cores);
  if (needs.step_flops > rate)
    out += cat("a step: about ", duration_text(needs.step_flops / rate), " for its products alone (",
               fixed(rate / 1e9, 0), " GFLOP/s measured here)\n");
  return out +
         (speed.is_slow() ? cat("warning: ", slow_products_text(run.layout.precision, speed), "\n") : "");
}

}  // namespace tessera::job
