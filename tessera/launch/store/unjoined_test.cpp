#include "tessera/launch/store/unjoined.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::launch {
namespace {

using testing::HasSubstr;

struct Case {
  const char* what;
  Environment environment;
  const char* named = "";  // in the message
};

TEST(Unjoined, NamesEveryLauncherWhoseRanksCannotBeJoined) {
  const Case cases[] = {
      {"torch without an address", {{"RANK", "0"}, {"WORLD_SIZE", "4"}}, "RANK=0, WORLD_SIZE=4"},
      {"a number of processes alone", {{"WORLD_SIZE", "2"}}, "WORLD_SIZE=2"},
      {"MPICH", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE"},
      {"PMIx", {{"PMIX_RANK", "0"}}, "PMIX_RANK=0"},
      {"Kubernetes", {{"JOB_COMPLETION_INDEX", "3"}}, "RANK=$JOB_COMPLETION_INDEX"},
      {"a batch script", {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}}, "srun -n 8 tessera train"},
      {"a batch script's own step",
       {{"SLURM_STEP_ID", "4294967291"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
       "SLURM_PROCID=0, SLURM_NTASKS=2"},
      {"a task without its step", {{"SLURM_PROCID", "3"}}, "SLURM_PROCID=3"},
      {"Intel MPI", {{"MPI_LOCALRANKID", "0"}}, "MPI_LOCALRANKID=0"},
      {"Flux", {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "4"}}, "FLUX_TASK_RANK=0, FLUX_JOB_SIZE=4"},
      {"Flux without a number of tasks", {{"FLUX_TASK_RANK", "2"}}, "FLUX_TASK_RANK=2"},
      {"PALS", {{"PALS_RANKID", "5"}}, "PALS_RANKID=5"},
      {"MVAPICH", {{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}}, "MV2_COMM_WORLD_SIZE=2"},
      {"MPICH that srun has started one task of",
       {{"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "1"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_STEP_NUM_NODES", "1"},
        {"SLURM_STEP_TASKS_PER_NODE", "1"},
        {"PMI_RANK", "3"},
        {"PMI_SIZE", "16"}},
       "PMI_RANK=3, PMI_SIZE=16"},
      {"torchrun of one in each of several tasks",
       {{"TORCHELASTIC_RUN_ID", "a"},
        {"RANK", "0"},
        {"WORLD_SIZE", "1"},
        {"LOCAL_RANK", "0"},
        {"LOCAL_WORLD_SIZE", "1"},
        {"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       "Leave torchrun out"},
  };
  for (const Case& each : cases) {
    const auto complaint = unjoined(each.environment);
    ASSERT_TRUE(complaint) << each.what;
    EXPECT_THAT(*complaint, HasSubstr(each.named)) << each.what;
  }
}

TEST(Unjoined, IsSilentWhereRanksAreJoinedOrThisProcessIsTheOnlyOne) {
  const Environment step_of_one = {{"SLURM_STEP_ID", "0"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_NTASKS", "8"},
                                   {"SLURM_STEP_NUM_TASKS", "1"},
                                   {"SLURM_LOCALID", "0"},
                                   {"SLURM_STEP_NUM_NODES", "1"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "1"}};
  Environment pmi2 = step_of_one;
  for (const auto& [name, value] : Environment{{"SLURM_STEP_NUM_TASKS", "2"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                               {"PMI_RANK", "0"},
                                               {"PMI_SIZE", "2"}})
    pmi2[name] = value;
  Environment pmix = step_of_one;
  pmix["PMIX_RANK"] = "0";
  const Case cases[] = {
      {"nobody", {}},
      {"a word of anybody's", {{"RANK", "1"}}},
      {"an allocation of one task", {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "1"}}},
      {"the shell of salloc", {{"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "1"}}},
      {"a task of an array", {{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}}},
      {"srun -n 1 in a larger allocation", step_of_one},
      {"srun --mpi=pmix -n 1", pmix},
      {"srun --mpi=pmi2 -n 2", pmi2},
      {"mpirun -n 1 in a batch script",
       {{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "1"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
        {"PMIX_RANK", "0"},
        {"SLURM_NTASKS", "8"}}},
      {"mpiexec -n 1 of Intel MPI", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"MPI_LOCALRANKID", "0"}}},
      {"mpiexec -n 1 of PALS", {{"PALS_RANKID", "0"}, {"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}},
      {"flux run -n 1", {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "1"}}},
      {"torch's variables for one", {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"JOB_COMPLETION_INDEX", "4"}}},
      {"torch's variables with an address",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}},
      {"an indexed job with an address",
       {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "job-0"}, {"JOB_COMPLETION_INDEX", "3"}}},
  };
  for (const Case& each : cases) EXPECT_EQ(unjoined(each.environment), std::nullopt) << each.what;
}

}  // namespace
}  // namespace tessera::launch
