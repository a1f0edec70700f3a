// What does a rank gain from holding a part of the sequence? Forward and backward of causal attention on one
// rank, on ranks of a ring and on ranks that exchange heads, all as threads with one compute thread each,
// beside the transfers alone; and the same for a sample that is packed with documents of equal length.
//   build/release/context_speed [positions = 2048] [query heads = 8] [key heads = 8] [ranks = 2] [documents =
//   16]
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/parallel/context_attention.hpp"
#include "tessera/program/ir/context_parallel.hpp"

namespace {

using namespace tessera;
using collective::Group;
using parallel::Heads;
using tensor::Tensor;

constexpr std::int64_t kHeadDim = 64;
constexpr int kTurns = 5, kRounds = 5;

Tensor noise(std::int64_t heads, std::int64_t positions) {
  return tensor::empty({1, positions, heads, kHeadDim}, at::kFloat).normal_().transpose(1, 2);
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Milliseconds of the rounds.
struct Times {
  std::vector<double> elapsed;  // from a meeting of all ranks until the last is through
  std::vector<double> busy;     // of this rank's core, which other programs may share

  template <typename Body>
  void add_round(const Group& all, const Body& body) {
    all.barrier();
    const double start = now_seconds(), busy_start = cpu_seconds();
    body();
    const double busy_end = cpu_seconds();
    all.barrier();
    elapsed.push_back(1e3 * (now_seconds() - start));
    busy.push_back(1e3 * (busy_end - busy_start));
  }
  void append_but_first(const Times& other) {
    elapsed.insert(elapsed.end(), other.elapsed.begin() + 1, other.elapsed.end());
    busy.insert(busy.end(), other.busy.begin() + 1, other.busy.end());
  }
};

void attend(const Heads& heads, const parallel::ContextAxes& axes, const parallel::Documents& documents,
            const Tensor& d_out) {
  const auto leaf = [](const Tensor& t) { return t.detach().set_requires_grad(true); };
  context_attention({leaf(heads.q), leaf(heads.k), leaf(heads.v)}, axes, documents).backward(d_out);
}

// One sample of so many documents.
parallel::Documents documents_of(std::int64_t positions, std::int64_t count) {
  parallel::Documents documents{{{}}};
  for (std::int64_t i = 1; i <= count; ++i) documents.ends[0].push_back(i * positions / count);
  return documents;
}

// The same calls without attention.
void transfer(const std::vector<program::ContextCall>& calls, const Group& group) {
  for (const auto& call : calls) {
    const Tensor t = tensor::empty({call.bytes}, at::kByte);
    Tensor arrived = tensor::empty({call.bytes}, at::kByte);
    if (call.kind == program::CollectiveKind::shift) {
      group.shift(t, (group.rank() + 1) % group.size(), arrived,
                  (group.rank() + group.size() - 1) % group.size(), 0)();
    } else {
      const std::vector<std::int64_t> rows(static_cast<std::size_t>(group.size()), call.bytes / group.size());
      group.all_to_all(arrived, t, rows, rows);
    }
  }
}

struct Sizes {
  std::int64_t positions, query_heads, kv_heads;
};

struct Row {
  std::string name;
  program::ContextSizes sizes;
  std::int64_t documents = 1;
};

struct Measured {
  Times attention, transfers;
};

// One turn. Its first round takes memory from the system and doesn't count.
void measure(Measured& measured, const Sizes& shape, const Row& row) {
  const program::ContextSizes& sizes = row.sizes;
  const parallel::Documents documents = documents_of(shape.positions, row.documents);
  const std::int64_t ranks = sizes.ring * sizes.heads, positions = shape.positions / ranks;
  collective::run_ranks(static_cast<int>(ranks), [&](const collective::Communicator& me) {
    std::vector<int> everyone;
    for (int rank = 0; rank < ranks; ++rank) everyone.push_back(rank);
    const Group all = make_groups(me, {everyone})[0];
    const parallel::ContextAxes axes{{"cp_ring", sizes.ring > 1 ? all : Group(me.rank())},
                                     {"cp_heads", sizes.heads > 1 ? all : Group(me.rank())}};
    const Heads heads{noise(shape.query_heads, positions), noise(shape.kv_heads, positions),
                      noise(shape.kv_heads, positions)};
    const Tensor d_out = noise(shape.query_heads, positions);
    const auto calls =
        program::context_calls({1, shape.query_heads, shape.kv_heads, positions, kHeadDim}, sizes);
    Measured own;
    for (int round = 0; round <= kRounds; ++round) {
      own.attention.add_round(all, [&] { attend(heads, axes, documents, d_out); });
      own.transfers.add_round(all, [&] {
        transfer(calls.forward, all);
        transfer(calls.backward, all);
      });
    }
    if (me.rank() != 0) return;
    measured.attention.append_but_first(own.attention);
    measured.transfers.append_but_first(own.transfers);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, long fallback) { return argc > i ? std::atol(argv[i]) : fallback; };
  const Sizes shape{argument(1, 2048), argument(2, 8), argument(3, 8)};
  const std::int64_t ranks = argument(4, 2);
  std::printf("causal attention, %ld positions, %ld query and %ld key heads of %ld channels, fp32\n",
              shape.positions, shape.query_heads, shape.kv_heads, kHeadDim);
  const std::int64_t documents = argument(5, 16);
  std::vector<Row> rows{{"one rank", {1, 1}}, {"ring", {ranks, 1}}, {"exchanged heads", {1, ranks}}};
  for (std::size_t i = 0; i < 3; ++i)
    rows.push_back({cat(rows[i].name, ", ", documents, " documents"), rows[i].sizes, documents});
  std::vector<Measured> measured(rows.size());
  for (int turn = 0; turn < kTurns; ++turn)
    for (std::size_t i = 0; i < rows.size(); ++i) measure(measured[i], shape, rows[i]);
  const double alone = median(measured[0].attention.busy);
  std::printf("%-32s %10s %12s %12s %24s\n", "", "ms", "busy ms", "of one rank", "busy with transfers alone");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double busy = median(measured[i].attention.busy), transfers = median(measured[i].transfers.busy);
    std::printf("%-32s %10.1f %12.1f %12.3f %14.2f, %5.1f %%\n", rows[i].name.c_str(),
                median(measured[i].attention.elapsed), busy, busy / alone, transfers, 100 * transfers / busy);
  }
}
