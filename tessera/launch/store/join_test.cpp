#include "tessera/launch/store/join.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"GROUP_WORLD_SIZE", "2"},
                               {"TORCHELASTIC_RUN_ID", "night"},
                               {"TORCHELASTIC_RESTART_COUNT", "3"},
                               {"MASTER_ADDR", "a"},
                               {"MASTER_PORT", "29500"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                             {"OMPI_MCA_orte_num_nodes", "9"},    {"OMPI_MCA_orte_bound_at_launch", "1"},
                             {"PMIX_NAMESPACE", "1468661761"}};
const Environment kSlurm = {
    {"SLURM_PROCID", "6"},  {"SLURM_NTASKS", "9"},  {"SLURM_STEP_NUM_TASKS", "7"},
    {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "3"},  {"SLURM_NNODES", "4"},
    {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

std::string complaint(const Environment& environment) {
  try {
    membership(environment);
  } catch (const UserError& error) {
    return error.what();
  }
  return "(no complaint)";
}

TEST(Join, EveryStarterIsRead) {
  EXPECT_EQ(membership(kTorchrun),
            (Membership{5, 8, 1, 4, 2, "torchrun-night-a:29500", 3, "torchrun", false}));
  EXPECT_EQ(membership(kMpirun), (Membership{1, 2, 1, 2, 1, "mpirun-1468661761", 0, "mpirun", true}));
  EXPECT_EQ(membership(kSlurm), (Membership{6, 7, 0, 1, 4, "slurm-12-2", 0, "srun", false}));
  const auto spread =
      with(with(kMpirun, "OMPI_COMM_WORLD_LOCAL_RANK", "0"), "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  EXPECT_EQ(membership(spread)->num_hosts, 2);
}

TEST(Join, AProcessThatNobodyStartedStandsAlone) {
  EXPECT_EQ(membership({}), std::nullopt);
  EXPECT_EQ(membership({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), std::nullopt);  // anybody's words
  Environment outside_a_step = kSlurm;
  outside_a_step.erase("SLURM_STEP_ID");
  EXPECT_EQ(membership(outside_a_step), std::nullopt);
  EXPECT_EQ(membership(with(kSlurm, "SLURM_STEP_ID", "4294967291")), std::nullopt);  // the batch script
}

TEST(Join, TorchsOwnVariablesMakeARankOfATraining) {
  const Environment here = {
      {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}};
  const std::string launcher = "the launcher that set RANK and WORLD_SIZE";
  EXPECT_EQ(membership(here, Joins::any),
            (Membership{2, 4, 2, 4, 1, "torch-127.0.0.1:1", 0, launcher, false}));
  EXPECT_EQ(membership(here), std::nullopt) << "a shell in a container has them too";
  EXPECT_EQ(membership(with(here, "MASTER_ADDR", "node1"), Joins::any),
            (Membership{2, 4, 0, 1, 2, "torch-node1:1", 0, launcher, true}));
  auto two_each = with(with(here, "MASTER_ADDR", "node1"), "LOCAL_RANK", "0");
  two_each = with(two_each, "LOCAL_WORLD_SIZE", "2");
  EXPECT_EQ(membership(two_each, Joins::any),
            (Membership{2, 4, 0, 2, 2, "torch-node1:1", 0, launcher, false}));
  EXPECT_EQ(membership(with(here, "MASTER_ADDR", ""), Joins::any), std::nullopt);
  auto within = kSlurm;
  within.insert(here.begin(), here.end());
  EXPECT_EQ(membership(within, Joins::any)->started_by, "srun") << "who says more counts";
}

TEST(Join, AJobOfOneRankStandsAlone) {
  auto one = with(with(kTorchrun, "RANK", "0"), "WORLD_SIZE", "1");
  one = with(with(with(one, "LOCAL_RANK", "0"), "LOCAL_WORLD_SIZE", "1"), "GROUP_WORLD_SIZE", "1");
  EXPECT_EQ(membership(one), std::nullopt);
}

TEST(Join, TheInnermostStarterCounts) {
  Environment both = kSlurm;
  both.insert(kMpirun.begin(), kMpirun.end());
  EXPECT_EQ(membership(both)->started_by, "mpirun");
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(membership(both)->started_by, "torchrun");
}

TEST(Join, MalformedOrMissingVariablesAreNamed) {
  for (const char* value : {"", "x", "8", "-1", "1x", "99999999999999999999"})
    EXPECT_EQ(complaint(with(kTorchrun, "RANK", value)),
              cat("RANK = '", value,
                  "' in the environment, as left by torchrun: wants a whole number from 0 to 7"));
  for (const auto& environment : {kTorchrun, kMpirun, kSlurm})
    for (const auto& [name, value] : environment)
      for (const char* damaged : {"", "x", "-1", "0x1", "1073741824"})
        EXPECT_THAT(
            complaint(with(environment, name, damaged)),
            testing::AnyOf("(no complaint)", testing::StartsWith(cat(name, " = '", damaged, "' in the"))));
  Environment without = kMpirun;
  without.erase("OMPI_COMM_WORLD_LOCAL_SIZE");
  EXPECT_THAT(complaint(without), testing::StartsWith("OMPI_COMM_WORLD_LOCAL_SIZE is not set"));
}

TEST(Join, SlurmsListOfTasksIsReadToTheNode) {
  const auto local_size = [](const char* list, const char* node) {
    auto environment = with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", list);
    environment["SLURM_NODEID"] = node;
    return membership(environment)->local_size;
  };
  EXPECT_EQ(local_size("2(x3),1", "2"), 2);
  EXPECT_EQ(local_size("3,2,1,1", "1"), 2);
  EXPECT_EQ(local_size("1(x2),2,3", "3"), 3);
  for (const char* list : {"2(x3)", "2(x", "2(x3", "", "a", "2,", "0(x4)", "2(x3);1"})
    EXPECT_THAT(complaint(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", list)),
                testing::StartsWith("SLURM_STEP_TASKS_PER_NODE = '"))
        << list;
}

}  // namespace
}  // namespace tessera::launch
