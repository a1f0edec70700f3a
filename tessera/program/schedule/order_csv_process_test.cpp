// The other implementation of the format: PyTorch loads, validates and lowers our orders, and we read and
// walk PyTorch's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"
#include "tessera/program/schedule/order_csv.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/schedule/walk_order.hpp"

namespace tessera::program {
namespace {

// Arguments: folder, ranks, micro-batches. ours_<virtual stages>_*.csv are loaded; theirs_*.csv are written.
constexpr const char* kScript = R"(
import glob, os, re, sys
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime, get_schedule_class

folder, ranks, micros = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

class Stage:
    """What a schedule asks of a stage before the first step."""
    has_backward, submod = True, None
    def __init__(self, index, num_stages):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, num_stages, ranks, 0
        self.is_first, self.is_last = index == 0, index == num_stages - 1

def stages(indices, virtual):
    return [Stage(index, ranks * virtual) for index in indices]

ours = sorted(glob.glob(os.path.join(folder, "ours_*.csv")))
assert len(ours) == 7, ours
for path in ours:
    virtual = int(re.search(r"ours_(\d+)_", path).group(1))
    schedule = _PipelineScheduleRuntime(stages(range(virtual), virtual), micros, loss_fn=lambda: None)
    schedule._load_csv(path, format="compute_only")
    issued = sum(len(row) for row in schedule.pipeline_order_with_comms.values())
    assert issued > 2 * micros * ranks * virtual, path

for name in ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"):
    is_v = name in ("ZBVZeroBubble", "DualPipeV")
    mine = stages((0, 2 * ranks - 1) if is_v else (0, ranks), 2)
    schedule = get_schedule_class(name)(mine, micros, loss_fn=lambda: None)
    schedule._dump_csv(os.path.join(folder, f"theirs_{name}.csv"), format="compute_only")
)";

constexpr std::uint32_t kRanks = 4;
constexpr std::int32_t kMicros = 8;

TEST(OrderCsvProcess, PyTorchLoadsOurOrdersAndWeWalkPyTorchs) {
  const std::string folder = cat(testing::TempDir(), "tessera_order_csv_", ::getpid(), "/");
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + name) << text;
  };
  const Pipeline one{kRanks, 1, kMicros, {}}, two{kRanks, 2, kMicros, {}};
  write("ours_1_gpipe.csv", to_csv(gpipe(one)));
  write("ours_1_1f1b.csv", to_csv(one_forward_one_backward(one)));
  write("ours_1_zb_h1.csv", to_csv(zero_bubble_h1(one)));
  write("ours_2_interleaved.csv", to_csv(interleaved(two)));
  write("ours_2_bfs.csv", to_csv(breadth_first(two)));
  write("ours_2_zb_v.csv", to_csv(zero_bubble_v(two)));
  write("ours_2_dualpipe_v.csv", to_csv(dualpipe_v(two)));
  write("load.py", kScript);
  const std::string command = cat(".venv/bin/python ", folder, "load.py ", folder, " ", kRanks, " ", kMicros);
  ASSERT_EQ(std::system(command.c_str()), 0) << "run from the repository's folder: " << command;

  struct Theirs {
    std::string name;
    std::vector<std::uint32_t> rank_of_stage;
    double makespan;
    std::vector<std::int64_t> peaks;
  };
  const std::vector<Theirs> cases = {
      {"LoopedBFS", looped(kRanks, 2), 28.5, {16, 16, 16, 16}},
      {"Interleaved1F1B", looped(kRanks, 2), 28.5, {11, 9, 7, 5}},
      {"InterleavedZeroBubble", looped(kRanks, 2), 25.5, {8, 8, 8, 8}},
      {"ZBVZeroBubble", vee(kRanks), 25.5, {8, 8, 8, 8}},
      {"DualPipeV", vee(kRanks), 25.5, {9, 9, 9, 9}},
  };
  for (const Theirs& theirs : cases) {
    const Order order = parse_order_csv(file_text(cat(folder, "theirs_", theirs.name, ".csv")));
    EXPECT_EQ(order.num_micro, kMicros) << theirs.name;
    EXPECT_EQ(order.rank_of_stage, theirs.rank_of_stage) << theirs.name;
    EXPECT_EQ(walk(order, even_costs(kRanks, 2, {1, 1, 1})).makespan, theirs.makespan) << theirs.name;
    EXPECT_EQ(peak_activations(order), theirs.peaks) << theirs.name;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::program
