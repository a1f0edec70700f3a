#include "tessera/verify/outcome.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.hpp"
#include "tessera/checkpoint/format/chunk_hash.hpp"
#include "tessera/program/passes/holdings.hpp"

namespace tessera::train {

namespace {

using tensor::Tensor;

// By bucket: the flats of all parts into which it is cut, one after the other.
using Flats = std::map<std::uint32_t, Tensor>;

struct Snapshot {
  Flats gradients, parameters;
};

std::uint32_t index_of(const shard::FlatBucket& bucket, const program::Tables& tables) {
  return static_cast<std::uint32_t>(&bucket.table() - tables.buckets.data());
}

// Of this rank's slice, the flats of all parts; nothing on a server.
Tensor all_parts(const Session& session, const shard::FlatBucket& bucket, const Tensor& slice) {
  const Tensor mine = session.whole_of(bucket, slice);
  if (!mine.defined()) return mine;
  if (bucket.part().count == 1) return mine.cpu().clone();
  Tensor all = tensor::empty({bucket.part().count * mine.numel()}, mine.scalar_type(), mine.device());
  session.group(bucket.table().cut_over).all_gather(all, mine);
  return all.cpu();
}

// The whole parameter as a vector.
Tensor assembled(const Tensor& flats, const program::Bucket& bucket, const program::Parameter& parameter) {
  Tensor whole = tensor::empty(parameter.whole_shape(), flats.scalar_type());
  for (std::int64_t part = 0; part * bucket.elements < flats.numel(); ++part) {
    Tensor place = shard::in_box(whole, parameter.box(part));
    place.copy_(shard::parameter_in(flats.narrow(0, part * bucket.elements, bucket.elements), parameter));
  }
  return whole.reshape({-1});
}

std::map<std::string, Tensor> by_name(const Flats& flats, const program::Tables& tables) {
  std::map<std::string, Tensor> out;
  for (const auto& [bucket, flat] : flats)
    for (const auto& parameter : tables.buckets[bucket].parameters)
      out[parameter.name] = assembled(flat, tables.buckets[bucket], parameter);
  return out;
}

// Of one device's session after a step.
void note_largest_gradients(Session& session, std::map<std::string, double>& largest) {
  Flats flats;
  const auto& tables = session.program().tables;
  for (auto& bucket : session.buckets()) flats[index_of(bucket, tables)] = bucket.kept_gradient();
  const auto gradients = by_name(flats, tables);
  const double scale = rms(gradients);
  for (const auto& [name, gradient] : gradients) {
    const double ratio = gradient.numel() && scale > 0 ? gradient.abs().max().item<double>() / scale : 0;
    double& most = largest[name];
    if (!(ratio <= most)) most = ratio;  // NaN too
  }
}

Snapshot run_steps(Session& session, double clip_norm, int num_steps, Outcome& out) {
  Snapshot snapshot;
  const auto& tables = session.program().tables;
  const bool is_alone = tables.class_of_rank.size() == 1;
  const auto take = [&](int i, const engine::StepReport& report) {
    out.learning_rates += report.learning_rate;
    if (is_alone) note_largest_gradients(session, out.largest_gradients);
    out.losses.push_back(report.loss);
    out.norms.push_back(report.gradient_norm);
    for (std::size_t other = 1; other < report.losses.size(); ++other)
      out.other_losses.push_back(
          {cat(report.losses[other].name, " of step ", i + 1), report.losses[other].mean});
    if (i > 0) return;
    const double clipped = optim::clip_scale(tensor::number(report.gradient_norm), clip_norm).item<double>();
    for (auto& bucket : session.buckets())
      if (const Tensor all = all_parts(session, bucket, bucket.kept_gradient()); all.defined())
        snapshot.gradients[index_of(bucket, tables)] = all.div(clipped);
  };
  // The first alone, as its gradients are looked at; then as training does.
  take(0, session.step());
  for (int i = 1; i < num_steps; ++i) {
    session.begin_step(i + 1 < num_steps);
    if (tables.steps_overlap && i + 1 < num_steps) session.read_ahead(1);
    if (session.is_full()) take(i + 1 - static_cast<int>(session.under_way()), session.finish_step());
  }
  if (session.under_way() > 0) take(num_steps - 1, session.finish_step());
  for (auto& bucket : session.buckets())
    if (const Tensor shard = bucket.has_shard() ? session.shard_of(bucket) : Tensor(),
        all = all_parts(session, bucket, shard);
        all.defined())
      snapshot.parameters[index_of(bucket, tables)] = all;
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

// Axis sets along which ranks hold the same slice of a bucket: those of its sums, unless they cut it, and
// those of the axes on which it is equal without any sum.
std::vector<std::int16_t> sets_of_replicas(const program::Bucket& bucket, const program::Tables& tables) {
  std::vector<std::int16_t> out;
  if (bucket.sharded_over < 0) out.push_back(bucket.reduced_over);
  if (bucket.shared_over >= 0) out.push_back(bucket.shared_over);
  const auto is_invariant = [&](std::int16_t axis) {
    return std::ranges::count(bucket.placement, program::AxisPlacement{axis, program::Placement::invariant}) >
           0;
  };
  for (std::size_t set = 0; set < tables.axis_sets.size(); ++set)
    if (std::ranges::all_of(tables.axis_sets[set].axes, is_invariant))
      out.push_back(static_cast<std::int16_t>(set));
  return out;
}

// Bitwise the same parameters and gradients on all replicas of this rank's slices.
bool replicas_equal(Session& session) {
  double differing = 0;
  for (auto& bucket : session.buckets()) {
    if (!bucket.has_shard()) continue;
    for (const std::int16_t set : sets_of_replicas(bucket.table(), session.program().tables)) {
      for (const Tensor& mine : {session.shard_of(bucket), bucket.kept_gradient()}) {
        Tensor first = mine.clone();
        session.group(set).broadcast(first, 0);
        differing += tensor::bit_equal(first, mine) ? 0 : 1;
      }
    }
  }
  return session.sum(differing) == 0;
}

// More than a step takes, and not a multiple of it.
void evaluate(Session& session, Outcome& out) {
  constexpr std::uint64_t kFarAway = 1'000'000;  // from the samples of the steps
  const auto count = static_cast<std::uint64_t>(session.training().global_batch) + 1;
  const auto losses = session.evaluate(session.source(), kFarAway, count);
  out.evaluation = losses.front().sum / losses.front().tokens;
  for (std::size_t other = 1; other < losses.size(); ++other)
    out.other_losses.push_back(
        {losses[other].name + " of other samples", losses[other].sum / losses[other].tokens});
}

// Losses and norms are on all ranks what they are here.
bool numbers_equal(const Session& session, const Outcome& outcome) {
  const double num_ranks = session.sum(1);
  double differing = 0;
  std::vector others = {outcome.evaluation};
  for (const auto& loss : outcome.other_losses) others.push_back(loss.mean);
  for (const std::vector<double>* numbers : {&outcome.losses, &outcome.norms, &std::as_const(others)})
    for (const double number : *numbers) {
      differing += nearly_same(number, session.sum(number) / num_ranks) ? 0 : 1;
    }
  return session.sum(differing) == 0;
}

}  // namespace

double rms(const std::map<std::string, Tensor>& tensors) {
  double squares = 0, count = 0;
  for (const auto& [name, t] : tensors) {
    squares += optim::squared_norm(t.nan_to_num(0, 0, 0)).item<double>();
    count += static_cast<double>(t.numel());
  }
  return std::sqrt(squares / count);
}

bool nearly_same(double a, double b) {
  constexpr double kRounding = 1e-12;
  if (std::isfinite(a) && std::isfinite(b)) return std::abs(a - b) <= kRounding * std::abs(b);
  return a == b || (std::isnan(a) && std::isnan(b));
}

std::string bits_text(const Outcome& outcome) {
  std::vector<std::uint64_t> parts;
  for (const auto* numbers : {&outcome.losses, &outcome.norms})
    parts.push_back(checkpoint::hash_of(std::as_bytes(std::span(*numbers))));
  parts.push_back(checkpoint::hash_of(std::as_bytes(std::span(&outcome.evaluation, 1))));
  for (const auto& loss : outcome.other_losses)
    parts.push_back(checkpoint::hash_of(std::as_bytes(std::span(&loss.mean, 1))));
  for (const auto* tensors : {&outcome.gradients, &outcome.parameters})
    for (const auto& [name, t] : *tensors) {
      const Tensor dense = t.contiguous();
      parts.push_back(
          checkpoint::hash_of({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}));
    }
  return checkpoint::hash_text(checkpoint::hash_of(std::as_bytes(std::span(parts))));
}

Outcome outcome_of(Session& session, int rank, double clip_norm, int num_steps) {
  Outcome out;
  Snapshot snapshot = run_steps(session, clip_norm, num_steps, out);
  evaluate(session, out);
  collect(snapshot, session, rank);
  out.replicas_equal = replicas_equal(session);
  out.numbers_equal = numbers_equal(session, out);
  if (rank != 0) return out;
  out.gradients = by_name(snapshot.gradients, session.program().tables);
  out.parameters = by_name(snapshot.parameters, session.program().tables);
  return out;
}

}  // namespace tessera::train
