// The subcommands: each takes parsed options, prints what a person or (--json) a machine reads, returns the
// exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/files/folder_file.hpp"
#include "tessera/cli/commands/test_device.hpp"
#include "tessera/cli/data/data_commands.hpp"
#include "tessera/job/ranks.hpp"

namespace tessera::cli {

// simulate and draw: a schedule by itself, or what the ops of a run file cost.
struct SimulateOptions {
  std::string schedule;  // empty: a run file is given
  int stages = 4;        // ranks along the pipeline
  int num_virtual = 0;   // stages per rank; 0: as the schedule has it
  int micro_batches = 8;
  std::vector<double> costs = {1, 1, 1};  // forward, input half, weight half of a rank; a transfer
  std::int64_t memory_limit = 0;          // activations of a stage that a rank may hold; 0: no limit
  std::vector<double> rates;            // TFLOP/s, GB/s of memory, GB/s of a link, microseconds of a message
  std::vector<std::string> costs_from;  // traces; none: by rates
  std::string loads;                    // a metrics.jsonl whose loads of experts are priced; none: even ones
};

struct DrawOptions {
  std::string out;        // empty: named after what is drawn
  std::string measured;   // a trace
  std::int64_t step = 0;  // of the trace; 0: the one of median length
  bool memory = false;    // what ranks hold over the step, by category
  bool layout = false;    // the mesh, and who holds what of the parameters
  bool experts = false;   // how loaded the experts were, of a metrics.jsonl
};

struct Options;

struct CheckpointOptions {
  int (*command)(const Options&) = nullptr;  // which one was asked for
  std::string folder, second;                // what is looked at or read; the other one, or where to
  int ranks = 1;
  bool parameters_only = false;
  bool all = false;              // each tensor and file instead of a summary
  std::string dtype, like;       // export: fp32, bf16 or fp16; a folder whose other files are taken
  Links links = Links::refused;  // in the folders that are read
};

// verify: instead of one layout all that are legal.
struct LayoutsOptions {
  std::int64_t most_ranks = 0;  // 0: the layout of the run file alone
  std::size_t sample = 0;       // 0: all of them
  std::string part = "1/1";     // of them
  std::uint64_t seed = 1;
  std::vector<std::string> axes;  // what varies; none: everything
  std::string precision = "fp64";
};

// Of "2/4" the two numbers; nothing if there is no such part.
std::optional<std::pair<std::size_t, std::size_t>> part_of_layouts(std::string_view text);

// verify: on another device than the CPU.
struct DeviceOptions {
  std::string name;  // empty: the CPU
  bool one_queue = false;
  std::optional<TestDevice> known;
  // As the options say.
  collective::RunRanks run_ranks(std::uint64_t seed) const;
  // What was seen on the device; nothing of the CPU.
  std::string report() const;
};

struct Options : job::JobOptions {
  bool json = false;
  bool print_config = false;
  bool dry_run = false;  // train: say what it would hold, and stop
  std::string out;
  std::string trace;
  std::string from;  // train: the checkpoint to go on from; empty: the newest of the run; "none": begin
  bool reset_optimizer = false, accept_changed_data = false;  // train: what may differ from that checkpoint
  int rounds = 15;                                            // bench
  SimulateOptions simulate;
  DrawOptions draw;
  CheckpointOptions checkpoint;
  DataOptions data;
  LayoutsOptions layouts;
  int verify_steps = 3;
  std::string replay;  // verify: the log of updates to replay; empty: none
  DeviceOptions device;
};

// Throws UserError for a run whose updates have no fixed order: no layout of it equals one device.
void check_has_order(const spec::Run& run);

int train_command(Options options);
int verify_command(const Options& options);
int verify_layouts_command(const Options& options);
int replay_command(const Options& options);
int bench_step_command(const Options& options);
int simulate_command(const Options& options);
int doctor_command(const Options& options);
int save_command(const Options& options);
int plan_memory_command(const Options& options);
int checkpoint_inspect_command(const Options& options);
int checkpoint_verify_command(const Options& options);
int checkpoint_reshard_command(const Options& options);
int checkpoint_diff_command(const Options& options);
int checkpoint_import_command(const Options& options);
int checkpoint_export_command(const Options& options);

}  // namespace tessera::cli
