// The closed forms of time and memory, and cluster files. Under a second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/planner/cluster.hpp"
#include "tessera/planner/footprint.hpp"

namespace tessera::planner {
namespace {

using testing::HasSubstr;

// Llama 3 8B on one node.
Workload llama() {
  Workload out;
  out.layers = 32, out.hidden = 4096, out.heads = 32, out.kv_heads = 8, out.head_dim = 128, out.ffn = 14336;
  out.vocab = 128256, out.sequence = 8192, out.devices = out.dp = 8, out.shard = 8, out.zero = 1,
  out.global_batch = 64;
  return out;
}

double step(const Workload& work, const Constants& constants = {}) {
  const Device& device = known_device("H100-80GB-SXM");
  return estimate(work, device, network_of(device), constants).step;
}

TEST(Estimate, ProductsTakeTheirFlopsOverTheRateTheyReach) {
  const Workload work = llama();
  const Device& device = known_device("H100-80GB-SXM");
  const Estimate e = estimate(work, device, network_of(device), {});
  const double weights = layer_parameters(work) * 32;
  const double flops = 6 * weights * 64 * 8192 / 8;
  EXPECT_GT(e.products, flops / (989e12 * 0.72));
  EXPECT_LT(e.products, flops / (989e12 * 0.60));
  EXPECT_NEAR(layer_parameters(work), 218103808, 1);
}

TEST(Estimate, TwiceTheBatchTakesTwiceTheComputation) {
  Workload twice = llama();
  twice.global_batch *= 2;
  const Device& device = known_device("A100-80GB-SXM");
  const Estimate one = estimate(llama(), device, network_of(device)),
                 two = estimate(twice, device, network_of(device));
  EXPECT_DOUBLE_EQ(two.products, 2 * one.products);
  EXPECT_DOUBLE_EQ(two.data, one.data);
  EXPECT_GT(two.step, 1.9 * one.step);
}

TEST(Estimate, EachWayToSplitCostsWhatItShould) {
  Workload work = llama();
  const double alone = step(work);
  work.recompute = Recomputed::full;
  EXPECT_NEAR(step(work) / alone, 4.0 / 3, 0.08);
  work = llama();
  work.tp = 8, work.dp = work.shard = 1;
  EXPECT_GT(step(work), alone);  // collectives in each block
  work.overlaps_tp = true;
  const double overlapped = step(work);
  work.overlaps_tp = false;
  EXPECT_GT(step(work), overlapped);
  work = llama();
  work.pp = 8, work.dp = work.shard = 1;
  const Device& device = known_device("H100-80GB-SXM");
  const Estimate pipelined = estimate(work, device, network_of(device), {});
  EXPECT_GT(pipelined.bubble, 0);
  work.order = PipelineOrder::zb_h1;
  EXPECT_LT(estimate(work, device, network_of(device), {}).bubble, pipelined.bubble);
  work.virtual_stages = 4, work.order = PipelineOrder::one_f_one_b;
  EXPECT_DOUBLE_EQ(estimate(work, device, network_of(device), {}).bubble, pipelined.bubble / 4);
}

TEST(Footprint,
     IsThatOfThePaperForMegatronsLayers) {  // Korthikanti et al. 2022, table 2: s b h (34 + 5 a s / h)
  Workload work;
  work.layers = 8, work.hidden = 4096, work.heads = work.kv_heads = 32, work.head_dim = 128,
  work.ffn = 4 * 4096;
  work.vocab = 51200, work.sequence = 2048, work.gated = false,
  work.attention = AttentionKernel::fused_softmax;
  work.global_batch = 1;
  const double sbh = 2048.0 * 4096;
  EXPECT_NEAR(footprint(work).activations / 8, sbh * (34 + 5.0 * 32 * 2048 / 4096), 1);
  EXPECT_NEAR(footprint(work).state, 18 * (12 * 4096.0 * 4096 * 8 + 2 * 51200.0 * 4096), 1);
  work.recompute = Recomputed::full;
  EXPECT_LT(footprint(work).activations, sbh * (8 * 2 + 34 + 5.0 * 32 * 2048 / 4096));
}

TEST(Footprint, ZeroSharesWhatItSays) {
  Workload work = llama();
  std::vector<double> held;
  for (work.zero = 0; work.zero <= 3; ++work.zero) held.push_back(footprint(work).state);
  EXPECT_GT(held[0], held[1]);
  EXPECT_GT(held[1], held[2]);
  EXPECT_GT(held[2], held[3]);
}

TEST(Cluster, IsReadWithItsKindsOfNodes) {
  const Cluster cluster = parse_cluster(
      "[cluster]\nname = \"mixed\"\nfailure_hours = 10000\n[new]\ndevice = \"H100-80GB-SXM\"\ncount = "
      "4\ndollars_per_hour = 3\n"
      "[old]\ndevice = \"A100-80GB-SXM\"\ncount = 4\nnetwork_gbps = 12.5\ndollars_per_hour = 1\n",
      "mixed.toml");
  EXPECT_EQ(cluster.devices(), 64);
  EXPECT_EQ(cluster.slowest().name, "old");
  EXPECT_EQ(cluster.network.network_gbps, 12.5);
  EXPECT_EQ(cluster.dollars_per_hour(), 2);
  EXPECT_TRUE(cluster.is_uneven());
}

TEST(Device, PartOfANameListsThoseThatHaveIt) {
  const auto message = [](const char* name) -> std::string {
    try {
      known_device(name);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("H100"),
            "there is no device \"H100\": name one of H100-80GB-SXM, H100-96GB-HBM2e-500W, H100-80GB-PCIe.");
  EXPECT_THAT(message("b200-sxm"), HasSubstr("name one of B200-SXM."));
  EXPECT_THAT(message("H100-80GB-SXN"), HasSubstr("did you mean H100-80GB-SXM?"));
}

TEST(Cluster, MistakesNameFileLineAndWhatIsAllowed) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_cluster(text, "c.toml");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("[h]\ndevice = \"H100-80GB-SXN\"\n"), HasSubstr("c.toml:2: there is no device"));
  EXPECT_THAT(message("[h]\ndevice = \"H100-80GB-SXN\"\n"), HasSubstr("did you mean H100-80GB-SXM?"));
  EXPECT_THAT(message("[h]\ndevise = \"H100-80GB-SXM\"\n"), HasSubstr("did you mean device?"));
  EXPECT_THAT(message("[cluster]\nname = \"x\"\n"), HasSubstr("names no nodes"));
  EXPECT_THAT(message("[h]\ncount = -1\n"), HasSubstr("c.toml:2: count = -1: wants an integer from 1"));
  EXPECT_THAT(message("x = 1\n"), HasSubstr("stands outside of a section"));
  EXPECT_THROW(read_cluster("nowhere.toml"), UserError);
  EXPECT_THROW(read_cluster("H100-80GB-SXM:12"), UserError);
  EXPECT_EQ(read_cluster("H100-80GB-SXM:4").devices(), 4);
  for (const char* count : {"1.5", "0", "-8", "nan", "inf", "", "1e308", "8x"})
    EXPECT_THROW(read_cluster(cat("H100-80GB-SXM:", count)), UserError) << count;
  for (const char* key : {"failure_hours = 0", "failure_hours = nan", "failure_hours = inf",
                          "pod_nodes = 1.5", "restart_minutes = -1", "half_bytes = 1e308"})
    EXPECT_THAT(message(cat("[cluster]\n", key, "\n[h]\ndevice = \"H100-80GB-SXM\"\n").c_str()),
                HasSubstr("c.toml:2: "))
        << key;
}

}  // namespace
}  // namespace tessera::planner
