// Starts that would train alone by accident, and starts inside allocations that are meant as they are. Some
// of them; all where the environment has TESSERA_ALL_CASES.
#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/one_in.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;

class Starting : public Binary {
 protected:
  Outcome train(const std::string& environment, const std::string& more = "") const {
    return shell(cat(environment, " ", binary(), " train ", path("run.toml"), " --out ", path("out"),
                     " training.steps=2 cluster.peak_tflops=1 ", more));
  }
};

const std::string kStepOfOne =
    "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 "
    "SLURM_STEP_NUM_NODES=1 SLURM_STEP_TASKS_PER_NODE=1 ";

TEST_F(Starting, NoProcessOfSeveralTrainsAlone) {
  const char* environments[] = {
      "RANK=0 WORLD_SIZE=4",    "WORLD_SIZE=2 LOCAL_RANK=1",
      "PMI_RANK=1 PMI_SIZE=2",  "PMIX_RANK=0",
      "JOB_COMPLETION_INDEX=3", "SLURM_JOB_ID=7 SLURM_NTASKS=8",
      "SLURM_PROCID=3",         "SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=2",
      "MPI_LOCALRANKID=0",      "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=4",
      "PALS_RANKID=5",          "MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=2"};
  OneIn chosen(12);
  for (const char* environment : environments) {
    if (!chosen()) continue;
    const Outcome outcome = train(environment);
    EXPECT_EQ(outcome.code, kExitUserError) << environment << "\n" << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("was started as one of several")) << environment;
    EXPECT_THAT(outcome.out, HasSubstr("--procs N")) << environment;
    EXPECT_FALSE(std::filesystem::exists(path("out"))) << environment;
    const Outcome planned = shell(cat(environment, " ", binary(), " plan memory ", path("run.toml")));
    EXPECT_EQ(planned.code, 0) << environment << "\n" << planned.out;
  }
}

TEST_F(Starting, StartsInsideAllocationsRun) {
  const std::string slurm = "SLURM_JOB_ID=7 SLURM_NTASKS=4 ";
  const std::pair<std::string, std::string> starts[] = {
      {"", ""},
      {"SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_PROCID=0", ""},
      {slurm, "--procs 1"},
      {slurm, "--procs 2"},
      {slurm, "layout.dp=2 --procs"},
      {kStepOfOne, ""},
      {kStepOfOne + "PMI_RANK=0 PMI_SIZE=1 PMIX_RANK=0", ""},
      {"SLURM_ARRAY_TASK_ID=3 SLURM_NTASKS=1", ""},
      {"RANK=0 WORLD_SIZE=1 JOB_COMPLETION_INDEX=4", ""},
      {"JOB_COMPLETION_INDEX=4", "--procs 1"},
      {"PMI_RANK=0 PMI_SIZE=1 MPI_LOCALRANKID=0", ""},
      {"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1", ""},
  };
  OneIn chosen(12);
  for (const auto& [environment, more] : starts) {
    if (!chosen()) continue;
    const Outcome outcome = train(environment, more);
    EXPECT_EQ(outcome.code, 0) << environment << " " << more << "\n" << outcome.out;
    EXPECT_EQ(losses().size(), 2u) << environment;
  }
}

TEST_F(Starting, RanksThatTorchsVariablesNameTrainTogether) {
  const std::string command = cat(binary(), " train ", path("run.toml"), " --out ", path("out"),
                                  " training.steps=2 cluster.peak_tflops=1 2>&1");
  const std::string each =
      cat("WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=", 1000 + getpid() % 60000, " ", command);
  const Outcome outcome = shell(cat("RANK=1 ", each, " & RANK=0 ", each, "; code=$?; wait $! && exit $code"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("2 ranks"));
  EXPECT_EQ(losses().size(), 2u);
}

TEST_F(Starting, AFailedStartLeavesNoFolderAndAnotherFolderIsAnnounced) {
  const Outcome refused =
      tessera(cat("train ", path("run.toml"), " --out ", path("new/out"), " data.path=/no/such"));
  EXPECT_EQ(refused.code, kExitUserError);
  EXPECT_FALSE(std::filesystem::exists(path("new")));
  // What only the ranks notice.
  const Outcome late =
      tessera(cat("train ", path("run.toml"), " --out ", path("new/out"),
                  " checkpoint.folder=", path("states"), " --procs 2 --trace /proc/none.json"));
  EXPECT_EQ(late.code, kExitUserError) << late.out;
  EXPECT_FALSE(std::filesystem::exists(path("new"))) << late.out;
  EXPECT_FALSE(std::filesystem::exists(path("states")));
  const auto here = [](const std::string& path) { return std::filesystem::absolute(path).string(); };
  const Outcome other =
      shell(cat("cd ", folder_, " && ", here(binary()), " train run.toml data.path=", here("corpus/kjv.txt"),
                " training.steps=1 cluster.peak_tflops=1 training.learning_rate=0.01"));
  EXPECT_EQ(other.code, 0) << other.out;
  EXPECT_THAT(other.out, HasSubstr("makes this another run than runs/run, so its folder is runs/run,"));
}

}  // namespace
}  // namespace tessera::cli
