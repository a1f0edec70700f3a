#include "tessera/train/verify.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/collective/threads.hpp"
#include "tessera/data/byte_corpus.hpp"
#include "tessera/program/holdings.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

namespace {

using tensor::Tensor;

constexpr std::int64_t kMaskPeriod = 5;

// Random tokens, with samples that differ in how many targets count.
Source uneven_source(const spec::Model& model) {
  return [random = random_source(model)](std::span<const std::uint64_t> samples,
                                         std::span<std::int64_t> tokens, std::span<std::int64_t> targets) {
    random(samples, tokens, targets);
    data::mask_every(kMaskPeriod, samples, targets);
  };
}

spec::Run one_device(spec::Run run) {
  // Delayed weights are other mathematics, whatever the layout.
  const bool is_delayed = run.layout.schedule == spec::Schedule::pipedream_2bw;
  run.layout = spec::Layout{.schedule = is_delayed ? spec::Schedule::pipedream_2bw : spec::Schedule::f1b1,
                            .micro_batch = run.training.global_batch,
                            .precision = run.layout.precision};
  return run;
}

// By bucket: the flats of all parts into which it is cut, one after the other.
using Flats = std::map<std::uint32_t, Tensor>;

struct Snapshot {
  std::vector<double> losses, norms;
  Flats gradients;   // of the first step
  Flats parameters;  // after the last
};

std::uint32_t index_of(const shard::FlatBucket& bucket, const program::Tables& tables) {
  return static_cast<std::uint32_t>(&bucket.table() - tables.buckets.data());
}

// Of this rank's slice, the flats of all parts.
Tensor all_parts(const Session& session, const shard::FlatBucket& bucket, const Tensor& slice) {
  const Tensor mine = session.whole_of(bucket, slice);
  if (bucket.part().count == 1) return mine.cpu().clone();
  Tensor all = tensor::empty({bucket.part().count * mine.numel()}, mine.scalar_type(), mine.device());
  session.group(bucket.table().cut_over).all_gather(all, mine);
  return all.cpu();
}

// Whole buckets, whichever ranks hold slices and parts of them.
Snapshot run_steps(Session& session) {
  Snapshot snapshot;
  const auto& tables = session.program().tables;
  for (int i = 0; i < kVerifySteps; ++i) {
    const auto report = session.step();
    snapshot.losses.push_back(report.loss);
    snapshot.norms.push_back(report.gradient_norm);
    if (i > 0) continue;
    for (auto& bucket : session.buckets())
      snapshot.gradients[index_of(bucket, tables)] = all_parts(session, bucket, bucket.kept_gradient());
  }
  for (auto& bucket : session.buckets())
    snapshot.parameters[index_of(bucket, tables)] = all_parts(session, bucket, session.shard_of(bucket));
  return snapshot;
}

// Rank 0 gets what the other stages of its own replica hold.
void collect(Snapshot& snapshot, Session& session, int rank) {
  const auto& program = session.program();
  const auto& tables = program.tables;
  if (tables.stage_axis < 0) return;
  const auto& group = session.group(tables.values_over);
  if (group.ranks().front() != 0) return;
  const auto tag = [](std::uint32_t bucket, bool is_gradient) {
    return static_cast<int>(2 * bucket + (is_gradient ? 1 : 0));
  };
  for (auto* flats : {&snapshot.gradients, &snapshot.parameters}) {
    const bool is_gradient = flats == &snapshot.gradients;
    if (rank != 0) {
      for (const auto& [bucket, flat] : *flats)
        group.send(flat.to(session.device()), 0, tag(bucket, is_gradient));
      continue;
    }
    for (int peer = 1; peer < group.size(); ++peer) {
      const auto& sequence =
          program.classes[tables.class_of_rank[static_cast<std::size_t>(group.ranks()[peer])]];
      const auto held = program::holdings(sequence, tables).buckets;
      for (std::uint32_t bucket = 0; bucket < held.size(); ++bucket) {
        if (!held[bucket]) continue;
        const auto& table = tables.buckets[bucket];
        Tensor flat =
            tensor::empty({table.elements * tables.size_of(table.cut_over)},
                          shard::to_torch(is_gradient ? table.gradient : table.storage), session.device());
        group.receive(flat, peer, tag(bucket, is_gradient));
        flats->try_emplace(bucket, flat.cpu());
      }
    }
  }
}

// Bitwise the same parameters and gradients on all replicas of this rank's slices.
bool replicas_equal(Session& session) {
  double differing = 0;
  for (auto& bucket : session.buckets()) {
    const auto& table = bucket.table();
    for (const std::int16_t set : {table.reduced_over, table.shared_over}) {
      const bool holds_slices = set == table.reduced_over && table.sharded_over >= 0;
      if (set < 0 || holds_slices) continue;
      for (const Tensor& mine : {session.shard_of(bucket), bucket.kept_gradient()}) {
        Tensor first = mine.clone();
        session.group(set).broadcast(first, 0);
        differing += tensor::bit_equal(first, mine) ? 0 : 1;
      }
    }
  }
  return session.sum(differing) == 0;
}

double largest(const Tensor& t) { return t.numel() ? t.abs().max().item<double>() : 0.0; }

double rms(const Flats& flats, const program::Tables& tables) {
  double squares = 0, count = 0;
  for (const auto& [bucket, flat] : flats) {
    squares += optim::squared_norm(flat);
    for (const auto& parameter : tables.buckets[bucket].parameters)
      count += static_cast<double>(parameter.elements());
  }
  return std::sqrt(squares / count);
}

// The whole parameter as a vector.
Tensor assembled(const Tensor& flats, const program::Bucket& bucket, const program::Parameter& parameter) {
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < flats.numel(); first += bucket.elements)
    parts.push_back(shard::parameter_in(flats.narrow(0, first, bucket.elements), parameter));
  if (parts.size() == 1) return parts.front().reshape({-1});
  return tensor::concatenate(parts, parameter.cut_dim).reshape({-1});
}

std::map<std::string, Tensor> by_name(const Flats& flats, const program::Tables& tables) {
  std::map<std::string, Tensor> out;
  for (const auto& [bucket, flat] : flats)
    for (const auto& parameter : tables.buckets[bucket].parameters)
      out[parameter.name] = assembled(flat, tables.buckets[bucket], parameter);
  return out;
}

// Buckets differ from layout to layout, parameters don't. In the order of the one device's tables.
void compare_tensors(Verification& out, const char* kind, const std::map<std::string, Tensor>& found,
                     const Flats& expected, const program::Tables& tables) {
  const double floor = rms(expected, tables);
  for (const auto& [bucket, flat] : expected)
    for (const auto& parameter : tables.buckets[bucket].parameters) {
      CHECK(found.contains(parameter.name), "no rank holds ", parameter.name);
      const Tensor a = found.at(parameter.name);
      const Tensor e = flat.narrow(0, parameter.offset, parameter.elements());
      const double scale = largest(e), difference = largest(a.sub(e));
      const double error = difference == 0 ? 0 : difference / std::max(scale, floor);
      out.comparisons.push_back({parameter.name, kind, error, std::max(scale, largest(a)) < 1e-6 * floor});
    }
}

void compare(Verification& out, const Snapshot& found, const program::Tables& found_tables,
             const Snapshot& expected, const program::Tables& tables) {
  for (int i = 0; i < kVerifySteps; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto relative = [](double a, double b) { return a == b ? 0.0 : std::abs(a - b) / std::abs(b); };
    out.comparisons.push_back(
        {cat("loss of step ", i + 1), "number", relative(found.losses[at], expected.losses[at]), false});
    out.comparisons.push_back(
        {cat("norm of step ", i + 1), "number", relative(found.norms[at], expected.norms[at]), false});
  }
  compare_tensors(out, "gradient", by_name(found.gradients, found_tables), expected.gradients, tables);
  compare_tensors(out, "parameter", by_name(found.parameters, found_tables), expected.parameters, tables);
  for (const auto& c : out.comparisons) {
    if (c.zero_in_theory) continue;
    // A comparison that isn't a number is worse than any error.
    out.worst_relative_error = std::isnan(c.error) ? INFINITY : std::max(out.worst_relative_error, c.error);
    if (std::isinf(out.worst_relative_error)) break;
  }
}

// Fewer and smaller micro-batches, the last ones as full or empty as they were.
void cut_batch(spec::Run& run, const std::function<void(const char*, std::int64_t&, std::int64_t)>& cut) {
  // Enough for a pipeline to have a start, a middle and an end.
  constexpr std::int64_t kMostSamples = 4;
  const std::int64_t most_micro_batches = std::max<std::int64_t>(5, 2 * run.layout.pp + 1);
  auto& batch = run.training.global_batch;
  const std::int64_t before = run.layout.micro_batch;
  cut("micro_batch", run.layout.micro_batch, kMostSamples);
  cut("global_batch", batch, (batch * run.layout.micro_batch + before - 1) / before);
  const std::int64_t round = run.layout.dp() * run.layout.micro_batch, rest = batch % round;
  if (run.layout.schedule_file.empty())  // which has its number of micro-batches
    cut("global_batch", batch,
        rest == 0 ? most_micro_batches * round : (most_micro_batches - 1) * round + rest);
}

}  // namespace

spec::Run shrunk_for_verification(const spec::Run& run, std::string& note) {
  spec::Run small = run;
  small.layout.precision = spec::Precision::fp64;
  small.training.warmup_steps = 0;
  std::vector<std::string> changes;
  // What a budget makes of the large model says nothing about the small one.
  if (small.layout.recompute == spec::Recompute::budget) {
    small.layout.recompute = spec::Recompute::full;
    changes.push_back("recompute budget -> full");
  }
  small.layout.memory_limit_mib = 0;
  const auto cut = [&](const char* name, std::int64_t& value, std::int64_t most) {
    if (value <= most) return;
    changes.push_back(cat(name, " ", value, " -> ", most));
    value = most;
  };
  auto& m = small.model;
  if (!m.weights.empty()) changes.push_back("weights drawn, not read");
  m.weights.clear();
  const std::int64_t head_dim = std::min<std::int64_t>(m.head_size(), 16), queries = m.heads / m.kv_heads;
  // A width of q that is not hidden's stays another.
  const std::int64_t extra = m.query_size() == m.hidden ? 0 : 8;
  cut("kv_heads", m.kv_heads, std::max<std::int64_t>(1, 8 / queries));
  cut("heads", m.heads, m.kv_heads * queries);
  cut("head_dim", m.head_dim, head_dim);
  cut("hidden", m.hidden, m.heads * head_dim + extra);
  cut("ffn", m.ffn, 3 * m.hidden);
  // Every stage keeps a unit, embedding and head among them.
  const bool dealt_by_hand = !small.layout.stages.empty() || !small.layout.schedule_file.empty();
  if (!dealt_by_hand)
    cut("layers", m.layers, std::max<std::int64_t>(3, small.layout.pp * small.layout.num_virtual() - 1));
  cut("vocab", m.vocab, 300);
  cut("sequence", m.sequence, 32);
  cut_batch(small, cut);
  note = join(changes, ", ");
  return small;
}

Verification verify(const spec::Run& run, const collective::Communicator& communicator,
                    const std::optional<Damaged>& damaged) {
  Verification out;
  const spec::Run small = shrunk_for_verification(run, out.shrunk);
  Session session(small, communicator, uneven_source(small.model),
                  {.damaged = damaged, .keep_gradients = true});
  Snapshot found = run_steps(session);
  collect(found, session, communicator.rank());
  out.num_ranks = communicator.size();
  out.num_micro = session.program().tables.num_micro;
  if (small.layout.pp > 1) out.schedule = session.schedule();
  out.replicas_equal = replicas_equal(session);
  if (communicator.rank() != 0) return out;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session reference(one_device(small), alone, uneven_source(small.model), {.keep_gradients = true});
    compare(out, found, session.program().tables, run_steps(reference), reference.program().tables);
  });
  return out;
}

Verification verify_on_threads(const spec::Run& run, const std::optional<Damaged>& damaged) {
  Verification out;
  collective::run_ranks(static_cast<int>(run.layout.ranks()),
                        [&](const collective::Communicator& communicator) {
                          Verification mine = verify(run, communicator, damaged);
                          if (communicator.rank() == 0) out = std::move(mine);
                        });
  return out;
}

namespace {

std::string judged(const Verification& verification, const Comparison& c) {
  if (c.zero_in_theory) return "zero in theory";
  return c.error <= verification.tolerance ? scientific(c.error) : scientific(c.error) + " WRONG";
}

}  // namespace

std::string to_text(const Verification& verification) {
  std::vector<std::vector<std::string>> numbers = {{"", "relative error"}};
  std::vector<std::vector<std::string>> tensors = {
      {"tensor", "gradient", cat("after ", kVerifySteps, " steps")}};
  for (const auto& c : verification.comparisons) {
    if (c.kind == "number")
      numbers.push_back({c.what, judged(verification, c)});
    else if (c.kind == "gradient")
      tensors.push_back({c.what, judged(verification, c)});
    else
      for (auto& row : tensors)
        if (row[0] == c.what) row.push_back(judged(verification, c));
  }
  return cat(verification.shrunk.empty() ? "" : cat("made smaller to verify: ", verification.shrunk, "\n"),
             table(numbers), "\n", table(tensors), "\n", verification.num_ranks, " rank(s), ",
             verification.num_micro, " micro-batch(es), ",
             verification.schedule.empty() ? "" : verification.schedule + ", ",
             "fp64, against one device: worst relative error ", scientific(verification.worst_relative_error),
             " (allowed ", scientific(verification.tolerance, 0), "), replicas ",
             verification.replicas_equal ? "bit-equal" : "DIFFER", ": ",
             verification.passed() ? "equal" : "NOT EQUAL", "\n");
}

}  // namespace tessera::train
