// Starts that cannot work are refused with what they need and what is there, before ranks start; the same
// starts run where they need 95 % of it. Some of them; all where the environment has TESSERA_ALL_CASES. As
// root, to mount small disks and to write what a control group says.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <functional>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/one_in.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr double kAmple = 1e15;

// Commands of a shell that come before the start, for a limit in bytes or files.
using Limit = std::function<std::string(double)>;

std::string number(double value) { return fixed(std::floor(value), 0); }

std::string group_two(double bytes) {
  return cat("mount -t tmpfs none /sys/fs/cgroup && echo ", number(bytes),
             " > /sys/fs/cgroup/memory.max && ");
}
std::string group_one(double bytes) {
  return cat("mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory && echo ", number(bytes),
             " > /sys/fs/cgroup/memory/memory.limit_in_bytes && ");
}
std::string host(double bytes) {
  return cat(
      "mount -t tmpfs none /sys/fs/cgroup && mount -t tmpfs none $F/disk && printf \"MemTotal: 9999999999 "
      "kB\\nMemAvailable: ",
      number(bytes / 1024), " kB\\n\" > $F/disk/meminfo && mount --bind $F/disk/meminfo /proc/meminfo && ");
}
std::string addresses(double bytes) { return cat("ulimit -v ", number(bytes / 1024), " && "); }
std::string files(double count) { return cat("ulimit -n ", number(count), " && "); }
std::string disk(double bytes) { return cat("mount -t tmpfs -o size=", number(bytes), " none $F/disk && "); }
// Text of the given size, to train on or to evaluate on.
std::string text(double bytes) { return cat("head -c ", number(bytes), " corpus/kjv.txt > $F/text && "); }

struct Case {
  const char* what;
  Limit limit;
  double too_little;  // enough to be refused with the amount that is needed
  std::string arguments;
};

const std::string kMiddling = "model.hidden=256 model.ffn=512 ";  // 16 MB a checkpoint
const std::string kOnDisk = kMiddling + "checkpoint.folder=$F/disk/states ";

std::vector<Case> cases() {
  std::vector<Case> out;
  const char* layouts[] = {"",
                           "layout.dp=2",
                           "layout.dp=2 layout.zero=3",
                           "layout.pp=2",
                           "layout.tp=2 layout.recompute=full",
                           "layout.dp=2 cluster.transport=threads"};
  for (const char* layout : layouts) {
    for (const auto& [what, limit] : {std::pair<const char*, Limit>{"a control group, version 2", group_two},
                                      {"a control group, version 1", group_one},
                                      {"memory of the host", host}})
      out.push_back({what, limit, 1e6, kMiddling + layout});
    out.push_back({"an address space", addresses, 1.5e9, kMiddling + layout});
  }
  for (const char* rule :
       {"checkpoint.every=2", "checkpoint.every=1 checkpoint.keep_last=1", "checkpoint.every=1",
        "checkpoint.every=1 checkpoint.keep_last=0",
        "checkpoint.every=1 checkpoint.keep_last=1 checkpoint.keep_every=2", "checkpoint.every_minutes=30"})
    out.push_back({"a disk", disk, 1e6, kOnDisk + rule});
  out.push_back({"a disk for what is offloaded", disk, 1e6,
                 kMiddling + "layout.offload=optimizer layout.offload_folder=$F/disk"});
  for (const char* layout : {"layout.dp=2", "layout.pp=2 layout.dp=2"})
    out.push_back({"open files", files, 40, layout});
  for (const char* sequence : {"32", "100"})
    out.push_back({"data", text, 20, cat("data.path=$F/text model.sequence=", sequence)});
  out.push_back({"data to evaluate on", text, 20, "evaluation.every=1 evaluation.path=$F/text"});
  return out;
}

class StartingWithLimits : public Binary {
 protected:
  Outcome start(const Case& of, double limit) const {
    std::filesystem::remove_all(path("out"));
    return shell(cat("unshare -m sh -c 'F=", folder_.string(), "; mkdir -p $F/disk && ", of.limit(limit),
                     binary(), " train $F/run.toml --out $F/out training.steps=4 cluster.peak_tflops=1 ",
                     of.arguments, "'"));
  }
};

// The number after "need", "needs" or "needs at least".
double needed(const std::string& message) {
  const auto at = message.find(" need");
  if (at == message.npos) return 0;
  const auto first = message.find_first_of("0123456789", at);
  char* end = nullptr;
  const double value = std::strtod(message.c_str() + first, &end);
  const std::string unit(end, 4);
  for (const auto& [name, bytes] : {std::pair{" GiB", 0x1p30}, {" MiB", 0x1p20}, {" KiB", 0x1p10}})
    if (unit == name) return value * bytes;
  return value;
}

double children_seconds() {
  rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

TEST_F(StartingWithLimits, IsRefusedWhereItCannotWorkAndRunsAtNearlyAllOfWhatIsThere) {
  OneIn chosen(25);
  for (const Case& each : cases()) {
    if (!chosen()) continue;
    SCOPED_TRACE(cat(each.what, ": ", each.arguments));
    const double need = needed(start(each, each.too_little).out);
    ASSERT_GT(need, 0);
    const double before = children_seconds();
    const Outcome refused = start(each, need * 0.95);
    EXPECT_LT(children_seconds() - before, 2) << "seconds of its processes";
    EXPECT_EQ(refused.code, kExitUserError) << refused.out;
    EXPECT_THAT(refused.out, ContainsRegex(" needs? (at least )?[0-9]"))
        << "what is needed, and below what is there";
    EXPECT_THAT(refused.out, ContainsRegex("(available|leaves|allows|free|has) ?[0-9]*|[0-9.]+ .?i?B? ?are"));
    EXPECT_THAT(refused.out, Not(HasSubstr("failed first"))) << "no rank has started";
    EXPECT_FALSE(std::filesystem::exists(path("out")));
    const Outcome runs = start(each, need / 0.95);
    EXPECT_EQ(runs.code, 0) << runs.out;
    EXPECT_THAT(runs.out, HasSubstr("trained 4 steps"));
  }
}

TEST_F(StartingWithLimits, IsRefusedWithoutItsFiles) {
  std::ofstream(path("file")) << "a file";
  OneIn chosen(7);
  for (const auto& [missing, there] :
       {std::pair<std::string, std::string>{"data.path=$F/none", "data.path=corpus/kjv.txt"},
        {"--out $F/file", "--out $F/out"},
        {"--out $F/file/out", "--out $F/out/deeper"},
        {"--trace $F/none/trace.json", "--trace $F/trace.json"},
        {"--from $F/none", "--from none"},
        {"data.path= data.sources=$F/none", ""},
        {"model.weights=$F/none.safetensors", ""}}) {
    if (!chosen()) continue;
    const auto run = [&](const std::string& arguments) {
      return shell(cat("F=", folder_.string(), "; ", binary(),
                       " train $F/run.toml training.steps=2 --procs 2 ", "cluster.peak_tflops=1 ",
                       arguments.starts_with("--out") ? "" : "--out $F/out ", arguments));
    };
    const Outcome refused = run(missing);
    EXPECT_EQ(refused.code, kExitUserError) << missing << "\n" << refused.out;
    EXPECT_THAT(refused.out, HasSubstr(path(missing.find("none") != missing.npos ? "none" : "file")));
    EXPECT_THAT(refused.out, Not(HasSubstr("failed first"))) << missing;
    EXPECT_FALSE(std::filesystem::exists(path("out"))) << missing;
    EXPECT_EQ(run(there).code, 0) << there;
    std::filesystem::remove_all(path("out"));
  }
}

}  // namespace
}  // namespace tessera::cli
